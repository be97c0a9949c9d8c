#pragma once
/// A cache of objects of one C++ type, constructed when they are allocated and destroyed when they are freed.
///
///     auto sessions = qm::ObjectCache<Session>::create("session");
///     Session* session = sessions.make(address, port);       // nullptr: no memory
///     sessions.destroy(session);
///     auto owned = sessions.make_unique(address, port);      // std::unique_ptr; empty: no memory
///
/// The natural name would be `Cache<T>`, but a class and a template cannot share a name, and qm::Cache, which has no
/// type, is the base of everything else.
///
/// Not the same as a cache's Constructor, which prepares the part of an object that stays valid from one user to the
/// next. Here every user gets a new T.

#include <memory>
#include <new>
#include <utility>

#include <qm/cache.hpp>

namespace qm {

template <class T>
class ObjectCache {
 public:
  /// Destroys an object and frees it to its cache.
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

  /// Options of a cache.
  struct Options {
    std::uint32_t flags = 0;  ///< kNoTrace, kNoPointers; kNoTouch is not allowed
    Arena* source = nullptr;  ///< nullptr: base_arena()
    std::size_t limit = 0;    ///< most objects allocated from the slab layer; 0: no limit
  };

  /// Creates the cache. @param[out] why if not null: as Cache::create().
  /// @returns an object cache; it converts to false if the cache could not be created. Context: as Cache::create().
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
  /// As close(). If that does not return kOk, the objects and the cache stay valid.
  ~ObjectCache() { (void)close(); }

  /// Destroys the cache; afterwards the object cache converts to false.
  /// @returns as Cache::destroy(): kBusy, and nothing has changed, while objects are in use.
  Status close() noexcept {
    const Status status = cache_ == nullptr ? Status::kOk : Cache::destroy(cache_);
    if (status == Status::kOk) cache_ = nullptr;
    return status;
  }

  [[nodiscard]] explicit operator bool() const noexcept { return cache_ != nullptr; }
  [[nodiscard]] Cache& cache() noexcept { return *cache_; }

  /// Allocates an object and constructs it. A constructor that throws ends the program. The ObjectCache must not be
  /// empty, which make() and cache() do not check.
  /// @returns nullptr as Cache::allocate(). Complexity, Context: as Cache::allocate() and the constructor.
  template <class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) noexcept {
    return construct(cache_->allocate(), std::forward<Arguments>(arguments)...);
  }
  /// The same, with a call site.
  template <class... Arguments>
  [[nodiscard]] T* make_at(const CallSite* site, Arguments&&... arguments) noexcept {
    return construct(cache_->allocate_at(site, sizeof(T)), std::forward<Arguments>(arguments)...);
  }
  /// The same, with a wait policy.
  template <class... Arguments>
  [[nodiscard]] T* make_with(WaitPolicy wait_policy, Arguments&&... arguments) noexcept {
    return construct(cache_->allocate_at(nullptr, sizeof(T), wait_policy), std::forward<Arguments>(arguments)...);
  }
  /// The same, as a unique pointer. @returns an empty pointer if make() returns nullptr.
  template <class... Arguments>
  [[nodiscard]] Pointer make_unique(Arguments&&... arguments) noexcept {
    return Pointer(make(std::forward<Arguments>(arguments)...), Deleter(cache_));
  }
  template <class... Arguments>
  [[nodiscard]] Pointer make_unique_at(const CallSite* site, Arguments&&... arguments) noexcept {
    return Pointer(make_at(site, std::forward<Arguments>(arguments)...), Deleter(cache_));
  }

  /// Destroys an object and frees it; nullptr is ignored.
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
