#include <qm/bench/harts.hpp>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>

namespace qm::bench {

unsigned harts() noexcept { return firmware::boot_info().hart_count; }

void on_harts(unsigned first, unsigned last, void (*function)(unsigned hart, void* argument), void* argument) noexcept {
  firmware::on_harts(first, last, "bench", function, argument);
}

}  // namespace qm::bench
