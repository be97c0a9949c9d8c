#include <qm/console/command.hpp>

#include <qm/console/console.hpp>

namespace qm::console {

bool Invocation::yield() noexcept { return console_.yield_for(out_); }

bool Invocation::abort_requested() const noexcept { return console_.abort_; }

void Invocation::begin_error() noexcept {
  if (!out_.at_line_start()) out_.put('\n');
  out_.begin_line("error");
}

CommandStatus Invocation::usage() noexcept {
  begin_error();
  out_.print("usage: {}\n", command_.usage);
  return CommandStatus::kUsage;
}

CommandStatus Invocation::fail_number(std::string_view text, Number why) noexcept {
  return why == Number::kTooLarge ? fail("{} is too large", text) : fail("{} is not a number", text);
}

void Invocation::answer(CommandStatus status) noexcept {
  out_.flush();
  console_.answer_for(status);
}

// ---- completion -----------------------------------------------------------------------------------------------------

void Completion::offer(std::string_view candidate) noexcept {
  constexpr std::size_t kListColumns = 78;
  char left_out[kMaxCandidate];
  if (leaves_out_ && candidate.size() < kMaxCandidate) {
    left_out[0] = '-';
    for (std::size_t at = 0; at < candidate.size(); ++at) left_out[at + 1] = candidate[at];
    candidate = {left_out, candidate.size() + 1};
  }
  if (!starts_with(candidate, prefix_)) return;
  if (list_ != nullptr && count_ >= kMaxListed) {
    // only counted
  } else if (list_ != nullptr) {
    if (!list_->at_line_start()) {
      const bool fits = list_->column() + 2 + candidate.size() <= kListColumns;
      list_->text(fits ? "  " : "\n");
    }
    list_->text(candidate);
  } else if (count_ == 0) {
    common_length_ = candidate.size() < kMaxCandidate ? candidate.size() : kMaxCandidate;
    for (std::size_t at = 0; at < common_length_; ++at) common_[at] = candidate[at];
  } else {
    std::size_t same = 0;
    while (same < common_length_ && same < candidate.size() && common_[same] == candidate[same]) ++same;
    common_length_ = same;
  }
  ++count_;
}

}  // namespace qm::console
