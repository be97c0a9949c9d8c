// What libstdc++ keeps in its library of class memory_resource, for images that do not link that.

#include <memory_resource>

std::pmr::memory_resource::~memory_resource() = default;
