// The registry: a walk never reads an entry that is being removed, an entry on which a cursor stands is not destroyed, and
// no two entries have one name.
//
// layer: alloc
//
// One hart walks over the caches, one destroys a cache and creates another one, and one creates a third with the name of
// the second. A search passes one entry in a hold of the lock.
//
// rewrite: alloc/include/qm/registry.hpp: kRegistryHold = 32 => kRegistryHold = 1
// rewrite: alloc/src/lock.cpp: kSpins = 200 => kSpins = 1
// rewrite: alloc/include/qm/registry.hpp: Registered* next_ = nullptr; => qm_relacy::Plain<Registered*> next_ = nullptr;
// rewrite: alloc/include/qm/registry.hpp: RegistryWalk* next_walk_ = nullptr; => qm_relacy::Plain<RegistryWalk*> next_walk_ = nullptr;
// rewrite: alloc/include/qm/registry.hpp: Registered* current_ = nullptr; => qm_relacy::Plain<Registered*> current_ = nullptr;
// rewrite: alloc/include/qm/registry.hpp: const char* name_ = ""; => qm_relacy::Plain<const char*> name_ = "";
// rewrite: alloc/include/qm/registry.hpp: bool hidden_ = false; => qm_relacy::Plain<bool> hidden_ = false;
// rewrite: alloc/include/qm/registry.hpp: Registered*& link() => qm_relacy::Plain<Registered*>& link()
// rewrite: alloc/src/cache/registry.cpp: constinit Registered* => constinit qm_relacy::Plain<Registered*>
// rewrite: alloc/src/cache/registry.cpp: constinit RegistryWalk* => constinit qm_relacy::Plain<RegistryWalk*>
// rewrite: alloc/src/cache/registry.cpp: constinit bool is_prefix_used => constinit qm_relacy::Plain<bool> is_prefix_used
// rewrite: alloc/src/cache/registry.cpp: Registered*& => qm_relacy::Plain<Registered*>&
// rewrite: alloc/src/cache/registry.cpp: Registered** => qm_relacy::Plain<Registered*>*
// rewrite: alloc/src/cache/registry.cpp: RegistryWalk** => qm_relacy::Plain<RegistryWalk*>*
//
// mutant WALKS_UNLOCKED: a walk goes to the next entry without the lock
//   alloc/src/cache/registry.cpp: const LockGuard guard(registry_lock);\n  do { => do {
// mutant PINS_NOTHING: an entry on which a cursor stands is destroyed
//   alloc/src/cache/registry.cpp: == RegistryWalk::Pins::kYes) return false; => == RegistryWalk::Pins::kYes) return true;
// mutant NOT_HIDDEN: cursors come to an entry that is being destroyed
//   alloc/src/cache/registry.cpp: entry.hidden_ = true; =>
// mutant SEARCH_STAYS: a search goes on behind an entry that was removed
//   alloc/src/cache/registry.cpp: if (walk->current_ == &entry) walk->current_ = search.current_; =>
// mutant ADDS_LATER: the lock is released between the search for the name and the entry
//   alloc/src/cache/registry.cpp: entry.append(kind);\n    return Status::kOk;\n  }\n} => break;\n  }\n  const LockGuard guard(registry_lock);\n  entry.append(kind);\n  return Status::kOk;\n}

#include "relacy_atomic.hpp"

#include <qm/registry.hpp>
#include <qm/detail/lock.hpp>

#include "hart.hpp"

#include <alloc/src/cache/registry.cpp>
#include <alloc/src/lock.cpp>

namespace {

struct Entry : qm::Registered {
  static constexpr qm::RegistryKind kRegistryKind = qm::RegistryKind::kCache;
  qm_relacy::Plain<unsigned> contents = 0;  // stands for the cache; create() and the destroyer write it
};

struct RegistrySuite : rl::test_suite<RegistrySuite, 3> {
  Entry* entries[4] = {};  // "a" "b" "c" "c"
  qm::Status second = qm::Status::kOk;
  qm::Status third = qm::Status::kOk;

  static qm::Status create(Entry& entry, const char* name) {
    RL_ASSERT(qm::set_name(entry, name) == qm::Status::kOk);
    entry.contents = 1;
    return qm::registry_add(qm::RegistryKind::kCache, entry);
  }
  static unsigned count(const char* name) {
    unsigned found = 0;
    qm::RegistryCursor<Entry> cursor;
    while (Entry* entry = cursor.next()) found += entry->is_called(name) ? 1 : 0;
    return found;
  }

  void before() {
    qm_relacy::begin_harts();
    qm::sleepers.touch();
    qm::registry_lock.state_.touch();
    for (auto& first : qm::firsts) first.touch();
    for (auto& last : qm::lasts) last.touch();
    qm::walks.touch();
    qm::is_prefix_used.touch();
    for (Entry*& entry : entries) entry = new Entry;
    RL_ASSERT(create(*entries[0], "a") == qm::Status::kOk);
    RL_ASSERT(create(*entries[1], "b") == qm::Status::kOk);
  }
  void thread(unsigned hart) {
    if (hart == 0) {
      qm::RegistryCursor<Entry> cursor;
      while (Entry* entry = cursor.next()) RL_ASSERT(entry->contents == 1);
    } else if (hart == 1) {
      if (qm::registry_hide(*entries[0]) == qm::Status::kOk) {
        qm::registry_remove(qm::RegistryKind::kCache, *entries[0]);
        entries[0]->contents = 2;
        entries[0]->next_ = nullptr;  // the memory belongs to the caller again
      }
      second = create(*entries[2], "c");
    } else {
      third = create(*entries[3], "c");
    }
  }
  void after() {
    RL_ASSERT((second == qm::Status::kOk) != (third == qm::Status::kOk));
    RL_ASSERT(entries[0]->contents == 2 && count("a") == 0);
    RL_ASSERT(count("b") == 1 && count("c") == 1);
    for (Entry* entry : entries) delete entry;
    qm_relacy::end();
  }
};

}  // namespace

int main() { qm_relacy::search<RegistrySuite>(20000, 2); }
