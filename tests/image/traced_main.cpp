/// The image of untraced_main.cpp with the layer `trace`, switched on and off again.

#include <qm/firmware/boot.hpp>
#include <qm/trace/live_trace.hpp>

#include "fast_path_callers.hpp"

void qm::firmware::main(const BootInfo&) {
  use_both_forms();
  if (trace::initialize({.object_base = 0x8000'0000}) != Status::kOk) panic("no trace");
  if (trace::start("looked").status != Status::kOk || trace::stop("looked").status != Status::kOk) panic("no tracing");
  qm_image_pair_inlined(1000);
}
