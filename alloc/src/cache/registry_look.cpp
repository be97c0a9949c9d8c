/// The functions of names that only reports need.

#include <qm/registry.hpp>

namespace qm {

void Registered::copy_name(char (&to)[kNameBytes]) const noexcept {
  const char* from = name_;
  for (char& c : to) c = *from != 0 ? *from++ : '\0';
}

Registered* RegistryWalk::look_up(const char* name) noexcept {
  leave();
  Registered* entry = nullptr;
  do {
    entry = advance();
  } while (entry != nullptr && !entry->is_called(name));
  return entry;
}

}  // namespace qm
