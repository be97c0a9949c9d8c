// The formats of single events: csv, and Chrome's trace events for Perfetto.

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_map>

#include <qm/analysis/export.hpp>
#include <qm/host/error.hpp>

#include "export_text.hpp"

namespace qm::analysis {

const std::string& EventExport::name_of(std::uint32_t traceable) const {
  static const std::string unknown = "(not defined)";
  const auto found = definitions().traceables.find(traceable);
  return found != definitions().traceables.end() ? found->second.name : unknown;
}

namespace {

void require_written(std::FILE* file) {
  if (std::fflush(file) != 0 || std::ferror(file) != 0) {
    throw host::Error(host::Fault::kOpen, std::string("cannot write the export: ") + std::strerror(errno));
  }
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string made = "\"";
  for (const char c : text) made += c == '"' ? "\"\"" : std::string(1, c);
  return made + '"';
}

template <class Map, class Show>
std::string look_up(const Map& map, std::uint32_t number, Show show) {
  const auto found = map.find(number);
  return number == 0 || found == map.end() ? std::string() : show(found->second);
}

std::string site_text(const host::CallSite& site) {
  return fmt::format("{}:{} {}", site.file, site.line, site.function);
}
std::string stack_text(const host::Stack& stack) { return fmt::format("{:#010x}", stack.id); }

class Csv final : public EventExport {
 public:
  Csv(const Report& report, std::FILE* file) : EventExport(report), file_(file) {
    fmt::print(file_,
               "number,seconds,hart,context,operation,name,address,old_address,requested,allocated,flags,stack,call_"
               "site,weight\n");
  }
  void finish() override { require_written(file_); }

 private:
  void write(const host::Event& event) override {
    const auto itself = [](const std::string& text) { return text; };
    fmt::print(file_, "{},{:.7f},{},{},{},{},{:#x},{},{},{},{},{},{},{}\n", event.number,
               report().summary->seconds(event.ticks), event.hart,
               csv_text(look_up(definitions().contexts, event.context, itself)), operation_name(event.operation),
               csv_text(name_of(event.traceable)), event.address,
               event.operation == host::Operation::kReallocate ? fmt::format("{:#x}", event.old_address) : "",
               event.requested, event.allocated, event.flags, look_up(definitions().stacks, event.stack, stack_text),
               csv_text(look_up(definitions().call_sites, event.call_site, site_text)), event.weight);
  }
  std::FILE* file_;
};

class Perfetto final : public EventExport {
 public:
  Perfetto(const Report& report, std::FILE* file) : EventExport(report), file_(file) {
    fmt::print(file_,
               "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"file\":{},\"build_id\":{},\"complete\":{}}},"
               "\n\"traceEvents\":[\n",
               json_string(report.file), json_string(report.summary->definitions().header.build_id),
               report.problems.empty() ? "\"yes\"" : "\"no\"");
    fmt::print(
        file_,
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{{\"name\":\"Quartermaster\"}}}}");
    for (std::size_t hart = 0; hart < report.summary->harts().size(); ++hart) {
      fmt::print(file_,
                 ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":\"hart {}\"}}}}",
                 hart + 1, hart);
    }
    for (const StackEntry& stack : report.stacks) names_.emplace(stack.origin, json_string(stack.name));
  }

  void finish() override {
    const Timeline& timeline = report().summary->timeline();
    for (const TraceableEntry& cache : report().traceables)
      counters("live bytes of " + cache.name, timeline.values(cache.series));
    const auto& harts = report().summary->harts();
    for (std::size_t hart = 0; hart < harts.size(); ++hart) {
      counters(fmt::format("live bytes of hart {}", hart), timeline.values(harts[hart].series));
    }
    counters("live bytes", timeline.values(Summary::kTotalSeries));
    fmt::print(file_, "\n]}}\n");
    require_written(file_);
  }

 private:
  [[nodiscard]] double microseconds(double ticks) const { return report().summary->seconds_long(ticks) * 1e6; }

  void write(const host::Event& event) override {
    const std::string& name = from(event);
    fmt::print(file_,
               ",\n{{\"ph\":\"i\",\"s\":\"t\",\"name\":\"{} "
               "{}\",\"cat\":\"{}\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"args\":{{\"address\":\"{:#x}\","
               "\"requested\":{},\"allocated\":{}{}}}}}",
               operation_name(event.operation), escaped(name_of(event.traceable)), operation_name(event.operation),
               event.hart + 1, report().summary->seconds(event.ticks) * 1e6, event.address, event.requested,
               event.allocated, name.empty() ? "" : ",\"from\":" + name);
  }

  /// @returns the origin of the event, quoted; empty if it is not known.
  const std::string& from(const host::Event& event) {
    const auto [known, is_new] = known_.try_emplace(std::uint64_t{event.stack} << 32 | event.call_site);
    if (is_new && known->first != 0) {
      const auto name = names_.find(origin_of(definitions(), event.stack, event.call_site));
      if (name != names_.end()) known->second = name->second;
    }
    return known->second;
  }

  void counters(const std::string& name, const std::vector<double>& values) {
    const auto width = static_cast<double>(report().summary->timeline().bucket_ticks());
    for (std::size_t bucket = 0; bucket < values.size(); ++bucket) {
      fmt::print(file_,
                 ",\n{{\"ph\":\"C\",\"name\":{},\"pid\":1,\"tid\":0,\"ts\":{:.3f},\"args\":{{\"bytes\":{:.0f}}}}}",
                 json_string(name), microseconds(width * static_cast<double>(bucket + 1)), values[bucket]);
    }
  }

  static std::string escaped(const std::string& text) {
    const std::string whole = json_string(text);
    return whole.substr(1, whole.size() - 2);
  }

  std::FILE* file_;
  std::map<Origin, std::string> names_;                   // quoted
  std::unordered_map<std::uint64_t, std::string> known_;  // key: the numbers of stack and call site
};

}  // namespace

std::unique_ptr<EventExport> export_csv(const Report& report, std::FILE* file) {
  return std::make_unique<Csv>(report, file);
}
std::unique_ptr<EventExport> export_perfetto(const Report& report, std::FILE* file) {
  return std::make_unique<Perfetto>(report, file);
}

}  // namespace qm::analysis
