/// An image without the layer `trace`.

#include <qm/firmware/boot.hpp>

#include "fast_path_callers.hpp"

void qm::firmware::main(const BootInfo&) { use_both_forms(); }
