// What libstdc++'s library defines of class memory_resource, for images that do not link that library.

#include <memory_resource>

std::pmr::memory_resource::~memory_resource() = default;
