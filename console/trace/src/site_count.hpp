#pragma once
/// Counts records by call site, for reports `by site`.

#include <qm/console/site_text.hpp>
#include <qm/trace/dump.hpp>

namespace qm::console {

/// Counts objects by call site, and prints the sites with the most bytes. The site is stored with the object; an object
/// that is freed meanwhile counts as one without a site.
class SiteCount {
 public:
  void add(Traceable& source, const trace::DumpEntry& entry) noexcept {
    const CallSite* site = site_of(source, entry.object);
    unsigned at = 0;
    while (at < count_ && rows_[at].site != site) ++at;
    if (at == kSites) {
      ++others_;
      return;
    }
    if (at == count_) rows_[count_++] = {site, 0, 0};
    ++rows_[at].objects;
    rows_[at].bytes += entry.requested;
  }
  void print(Invocation& call) noexcept {
    static TopSites top;
    top.clear();
    for (unsigned i = 0; i < count_; ++i) top.enter(rows_[i]);
    top.print(call, TopSites::Numbers::kHeld);
    if (others_ != 0) call.note("{} of other sites than the first {}\n", Counted{others_, "object/objects"}, kSites);
  }

 private:
  static constexpr unsigned kSites = 64;

  static const CallSite* site_of(Traceable& source, std::uintptr_t object) noexcept {
    const CallSite* site = source.kind() == RegistryKind::kCache
                               ? static_cast<Cache&>(source).site_of(reinterpret_cast<void*>(object))
                               : static_cast<Arena&>(source).site_of(object);
    return site != nullptr ? site : &qm_untagged_site;
  }

  TopSites::Figures rows_[kSites];
  unsigned count_ = 0;
  std::uint64_t others_ = 0;
};

}  // namespace qm::console
