/// The image of untraced_main.cpp with the guards, started and stopped again.

#include <qm/firmware/boot.hpp>
#include <qm/guards.hpp>

#include "fast_path_callers.hpp"

void qm::firmware::main(const BootInfo&) {
  use_both_forms();
  if (guards::start({.slots = 4, .every = 1000}) != Status::kOk || guards::select_heap() != Status::kOk)
    panic("no guards");
  qm_image_pair_of_heap(1000);
  if (guards::stop() != Status::kOk) panic("the guards do not stop");
}
