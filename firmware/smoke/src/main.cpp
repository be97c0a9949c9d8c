#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
void qm::firmware::main(const BootInfo&) { console_write(std::string_view("hello\r\n")); }
