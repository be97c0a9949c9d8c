#include <qm/host/standard_streams.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include <qm/host/error.hpp>

namespace qm::host {

void open_standard_streams() noexcept {
  // open() returns the lowest free number.
  int descriptor = open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
  if (descriptor >= 0) close(descriptor);
}

void flush_standard_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(Fault::kOpen, "the output could not be written");
}

}  // namespace qm::host
