#pragma once
/// A cache of objects of one C++ type, constructed when they are taken and destroyed when they are given back.
///
///     auto sessions = qm::ObjectCache<Session>::create("session");
///     Session* session = sessions.make(address, port);       // nullptr: no memory
///     sessions.destroy(session);
///     auto owned = sessions.make_unique(address, port);      // std::unique_ptr; empty: no memory
///
/// The name: `Cache<T>` would be the natural one, but qm::Cache, which has no type, is what everything else is made of,
/// and a class and a template cannot share a name.
///
/// Not to be mixed up with a cache's Constructor: that makes what an object keeps from one user to the next. Here every
/// user gets a new T.

#include <memory>
#include <new>
#include <utility>

#include <qm/cache.hpp>

namespace qm {

template <class T>
class ObjectCache {
 public:
  /// Gives an object back to the cache it is from.
  class Deleter {
   public:
    Deleter() noexcept = default;
    explicit Deleter(Cache* cache) noexcept : cache_(cache) {}
    void operator()(T* object) const noexcept {
      object->~T();
      cache_->free(object);
    }

   private:
    Cache* cache_ = nullptr;
  };
  using Pointer = std::unique_ptr<T, Deleter>;

  /// What may differ from one cache to the next.
  struct Options {
    std::uint32_t flags = 0;  ///< kNoTrace; not kNoTouch
    Arena* source = nullptr;  ///< nullptr: base_arena()
    std::size_t limit = 0;    ///< most objects out; 0: none
  };

  /// Makes the cache. @param[out] why if not null: as Cache::create().
  /// @returns an object cache, which is false if there is no cache. Context: as Cache::create().
  [[nodiscard]] static ObjectCache create(const char* name, const Options& options = {},
                                          Status* why = nullptr) noexcept {
    CacheConfig config;
    config.name = name;
    config.object_size = sizeof(T);
    config.alignment = alignof(T);
    config.flags = options.flags;
    config.source = options.source;
    config.limit = options.limit;
    return ObjectCache(Cache::create(config, why));
  }

  ObjectCache() noexcept = default;
  ObjectCache(ObjectCache&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
  ObjectCache& operator=(ObjectCache&& other) noexcept {
    std::swap(cache_, other.cache_);
    return *this;
  }
  /// Destroys the cache, unless objects are out: they stay what they are then, and so does the cache.
  ~ObjectCache() { (void)close(); }

  /// Destroys the cache; the object cache is false afterwards.
  /// @returns as Cache::destroy(): kBusy, and nothing has happened, while objects are out.
  Status close() noexcept {
    const Status status = cache_ == nullptr ? Status::kOk : Cache::destroy(cache_);
    if (status == Status::kOk) cache_ = nullptr;
    return status;
  }

  [[nodiscard]] explicit operator bool() const noexcept { return cache_ != nullptr; }
  [[nodiscard]] Cache& cache() noexcept { return *cache_; }

  /// Takes an object and constructs it. A constructor that throws ends the program.
  /// @returns nullptr as Cache::allocate(). Complexity, Context: as Cache::allocate(), and the constructor's.
  template <class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) noexcept {
    return construct(cache_->allocate(), std::forward<Arguments>(arguments)...);
  }
  /// The same, for a caller that knows its call site.
  template <class... Arguments>
  [[nodiscard]] T* make_at(const CallSite* site, Arguments&&... arguments) noexcept {
    return construct(cache_->allocate_at(site, sizeof(T)), std::forward<Arguments>(arguments)...);
  }
  /// The same, with a word on what it may do before it fails.
  template <class... Arguments>
  [[nodiscard]] T* make_with(Effort effort, Arguments&&... arguments) noexcept {
    return construct(cache_->allocate_at(nullptr, sizeof(T), effort), std::forward<Arguments>(arguments)...);
  }
  /// The same, owned. @returns an empty pointer where make() returns nullptr.
  template <class... Arguments>
  [[nodiscard]] Pointer make_unique(Arguments&&... arguments) noexcept {
    return Pointer(make(std::forward<Arguments>(arguments)...), Deleter(cache_));
  }
  template <class... Arguments>
  [[nodiscard]] Pointer make_unique_at(const CallSite* site, Arguments&&... arguments) noexcept {
    return Pointer(make_at(site, std::forward<Arguments>(arguments)...), Deleter(cache_));
  }

  /// Destroys an object and gives it back; nullptr is ignored.
  void destroy(T* object) noexcept {
    if (object != nullptr) Deleter{cache_}(object);
  }

 private:
  explicit ObjectCache(Cache* cache) noexcept : cache_(cache) {}
  template <class... Arguments>
  static T* construct(void* place, Arguments&&... arguments) noexcept {
    return place == nullptr ? nullptr : ::new (place) T(std::forward<Arguments>(arguments)...);
  }

  Cache* cache_ = nullptr;
};

}  // namespace qm
