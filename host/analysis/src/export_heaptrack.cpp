// The data format of heaptrack 1.4, as its interpreter writes it: one record on each line, numbers in hexadecimal.
//
//     v 10400 3                   versions: of heaptrack, of the file
//     X COMMAND   I PAGE PAGES    who ran, on which machine
//     s LENGTH TEXT               a string; strings count from 1
//     i ADDRESS MODULE [FUNCTION FILE LINE]...   an address, the innermost frame first; they count from 1
//     t ADDRESS PARENT            a stack: an address and the stack that called it, 0 none; they count from 1
//     a BYTES STACK               a kind of allocation; they count from 0
//     + KIND   - KIND             one more, one less
//     c MILLISECONDS              the time

#include <fmt/core.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include <qm/analysis/export.hpp>
#include <qm/host/error.hpp>
#include <qm/host/model.hpp>

#include "export_text.hpp"

namespace qm::analysis {
namespace {

class Heaptrack final : public EventExport {
 public:
  Heaptrack(const Report& report, std::FILE* file)
      : EventExport(report), file_(file), model_(report.summary->definitions()) {
    fmt::print(file_, "v 10400 3\nX {}\nI 1000 0\n", report.file);
    module_ = string(report.file);
    for (const StackEntry& stack : report.stacks) stacks_.emplace(stack.origin, &stack);
    for (const Summary::TraceableRow& row : report.summary->traceables()) counted_.emplace(row.number, row.counted);
  }
  void finish() override {
    if (std::fflush(file_) != 0 || std::ferror(file_) != 0)
      throw host::Error(host::Fault::kOpen, std::string("cannot write the export: ") + std::strerror(errno));
  }

 private:
  /// A kind of allocation: bytes, and the target's numbers of stack and call site.
  using Kind = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;

  void write(const host::Event& event) override {
    const auto milliseconds = static_cast<std::int64_t>(report().summary->seconds(event.ticks) * 1e3);
    if (milliseconds > milliseconds_) fmt::print(file_, "c {:x}\n", milliseconds_ = milliseconds);
    const host::Model::Step step = model_.apply(event);
    if (step.had_object)
      count('-', step.before.traceable, step.before.allocated, step.before.stack, step.before.call_site,
            step.before.weight);
    if (event.operation != host::Operation::kFree)
      count('+', event.traceable, event.allocated, event.stack, event.call_site, event.weight);
  }

  void count(char sign, std::uint32_t traceable, std::uint64_t bytes, std::uint32_t stack, std::uint32_t call_site,
             double weight) {
    const auto counted = counted_.find(traceable);
    if (counted != counted_.end() && !counted->second) return;
    const auto [kind, is_new] = kinds_.try_emplace(Kind{bytes, stack, call_site}, kinds_.size());
    if (is_new) fmt::print(file_, "a {:x} {:x}\n", bytes, trace(origin_of(definitions(), stack, call_site)));
    for (auto times = std::llround(weight); times > 0; --times) fmt::print(file_, "{} {:x}\n", sign, kind->second);
  }

  std::size_t string(const std::string& text) {
    const auto [entry, is_new] = strings_.try_emplace(text, strings_.size() + 1);
    if (is_new) fmt::print(file_, "s {:x} {}\n", text.size(), text);
    return entry->second;
  }

  /// @returns the number of an address with the frames [first, last), the innermost first.
  std::size_t address(const StackFrame* first, const StackFrame* last) {
    std::string text = fmt::format("{:x} {:x}", first->pc, module_);
    for (const StackFrame* frame = first; frame != last; ++frame) {
      text += fmt::format(" {:x}", string(frame_name(*frame)));
      text += fmt::format(" {:x} {:x}", frame->frame.file.empty() ? 0 : string(frame->frame.file), frame->frame.line);
    }
    const auto [entry, is_new] = addresses_.try_emplace(text, addresses_.size() + 1);
    if (is_new) fmt::print(file_, "i {}\n", text);
    return entry->second;
  }

  std::size_t trace(std::size_t address, std::size_t parent) {
    const auto [entry, is_new] = traces_.try_emplace({address, parent}, traces_.size() + 1);
    if (is_new) fmt::print(file_, "t {:x} {:x}\n", address, parent);
    return entry->second;
  }

  std::size_t trace(const Origin& origin) {
    const auto known = stacks_.find(origin);
    const std::span<const StackFrame> frames =
        known != stacks_.end() ? known->second->callers() : std::span<const StackFrame>();
    std::size_t made = 0;
    for (const StackFrame* end = frames.data() + frames.size(); end != frames.data();) {
      // The frames of one address: an inlined frame is followed by the frame that it is inlined in.
      const StackFrame* first = end - 1;
      while (first != frames.data() && (first - 1)->frame.inlined) --first;
      made = trace(address(first, end), made);
      end = first;
    }
    if (made != 0) return made;
    const StackFrame nameless{0, {known != stacks_.end() ? known->second->name : "(no stack)", "", 0, false}};
    return trace(address(&nameless, &nameless + 1), 0);
  }

  std::FILE* file_;
  host::Model model_;
  std::size_t module_ = 0;
  std::int64_t milliseconds_ = 0;
  std::map<Origin, const StackEntry*> stacks_;
  std::map<std::uint32_t, bool> counted_;
  std::map<std::string, std::size_t> strings_, addresses_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> traces_;
  std::map<Kind, std::size_t> kinds_;
};

}  // namespace

std::unique_ptr<EventExport> export_heaptrack(const Report& report, std::FILE* file) {
  return std::make_unique<Heaptrack>(report, file);
}

}  // namespace qm::analysis
