#pragma once
/// The origin of an allocation: the key of all figures in reports, differences and exports.

#include <compare>
#include <cstdint>
#include <string>

#include <qm/host/events.hpp>

namespace qm::analysis {

/// A call stack and, in a build with call sites, a call site. One stack may belong to several call sites: a recorded
/// stack leaves out the allocator's own frames, and a call site may lie in one of these.
struct Origin {
  std::string stack;      ///< its id, as 0x5a31c2e7; 0x00000000: no stack. In a dump without ids, its addresses
  std::string call_site;  ///< `net.cpp:41 rx_deliver`; empty: none
  friend auto operator<=>(const Origin&, const Origin&) = default;
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// @returns the origin of events with the numbers @p stack and @p call_site, which are keys of @p definitions; 0: none.
///          If the stack is not defined, its number stands in the place of its id.
[[nodiscard]] Origin origin_of(const host::Definitions& definitions, std::uint32_t stack, std::uint32_t call_site);

}  // namespace qm::analysis
