#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/registry.hpp>

#include "ledger.h"

bool arenas_are_sound() {
  bool sound = true;
  qm::RegistryCursor<qm::Cache> caches;
  while (qm::Cache* cache = caches.next())
    sound = sound && cache->verify_hart_caches() == qm::Status::kOk && cache->validate();
  qm::RegistryCursor<qm::Arena> arenas;
  while (qm::Arena* arena = arenas.next()) sound = sound && arena->validate();
  return sound;
}
