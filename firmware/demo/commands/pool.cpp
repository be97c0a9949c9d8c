/// pool take SIZE... | free N... | list: allocates and frees pieces of a small arena by hand, to give `frag` and
/// `whatis` examples.
///
/// The arena's memory is a block of the heap, allocated with the first piece and freed with the last one.

#include <array>

#include <qm/arena.hpp>
#include <qm/console/command.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/heap.hpp>

namespace qm::demo {
namespace {

using console::CommandStatus;
using console::Invocation;

constexpr std::size_t kPoolBytes = 16 * 1024;
constexpr std::size_t kQuantum = 64;

struct Piece {
  std::uintptr_t start = 0;  ///< 0: there is none
  std::size_t bytes = 0;
};

constinit Arena pool;
constinit void* memory = nullptr;  ///< nullptr: there is no arena
constinit std::array<Piece, 64> pieces;

bool make() noexcept {
  if (memory != nullptr) return true;
  memory = QM_ALLOC(heap::allocate_aligned, kQuantum, kPoolBytes);
  if (memory == nullptr) return false;
  ArenaConfig config;
  config.name = "pool";
  config.start = reinterpret_cast<std::uintptr_t>(memory);
  config.size = kPoolBytes;
  config.quantum = kQuantum;
  if (pool.initialize(config) == Status::kOk) return true;
  heap::free(memory);
  memory = nullptr;
  return false;
}

/// Frees the arena's memory if no piece is allocated. @returns whether there is no arena now.
bool end_if_empty() noexcept {
  if (memory == nullptr || pool.destroy() != Status::kOk) return memory == nullptr;
  heap::free(memory);
  memory = nullptr;
  return true;
}

void print(Invocation& call, unsigned at, std::string_view state) noexcept {
  call.row("piece", "pool: piece {number}, {size_bytes} bytes at {address}, {state}\n", at + 1, pieces[at].bytes,
           console::Address{pieces[at].start}, state);
}

/// Reads all numbers after the verb, before the command changes anything.
bool read(Invocation& call, std::array<std::uint64_t, 8>& numbers, CommandStatus& status) noexcept {
  for (std::size_t at = 2; at < call.words().size(); ++at) {
    const std::string_view text = call.words()[at];
    const console::Number number = console::parse_size(text, kPoolBytes, numbers[at - 2]);
    if (number != console::Number::kOk) status = call.fail_number(text, number);
    else if (numbers[at - 2] == 0) status = call.usage();
    if (status != CommandStatus::kOk) return false;
  }
  return true;
}

CommandStatus take(Invocation& call, std::span<const std::uint64_t> sizes) noexcept {
  if (!make()) return call.fail("no memory for the pool");
  for (const std::uint64_t size : sizes) {
    unsigned at = 0;
    while (at < pieces.size() && pieces[at].start != 0) ++at;
    if (at == pieces.size()) return call.fail("the pool has {} pieces at most", pieces.size());
    const std::uintptr_t start = QM_ALLOC(pool.allocate, static_cast<std::size_t>(size), Fit::kInstant);
    if (start == 0) {
      end_if_empty();
      return call.fail("the pool has no room for {} bytes (try frag {} pool)", size, size);
    }
    pieces[at] = {start, static_cast<std::size_t>(size)};
    print(call, at, "taken");
  }
  return Invocation::ok();
}

CommandStatus give_back(Invocation& call, std::span<const std::uint64_t> numbers) noexcept {
  for (const std::uint64_t number : numbers) {
    if (number > pieces.size() || pieces[number - 1].start == 0) return call.fail("the pool has no piece {}", number);
    Piece& piece = pieces[number - 1];
    pool.free(piece.start, piece.bytes);
    print(call, static_cast<unsigned>(number - 1), "free");
    piece = {};
  }
  end_if_empty();
  return Invocation::ok();
}

CommandStatus list(Invocation& call) noexcept {
  std::size_t count = 0;
  for (unsigned at = 0; at < pieces.size(); ++at) {
    if (pieces[at].start == 0) continue;
    ++count;
    print(call, at, "held");
  }
  call.row("end", "pool: pieces {pieces} of {most}: {verdict}\n", count, pieces.size(), console::closing_word(false));
  return Invocation::ok();
}

CommandStatus run_pool(Invocation& call) noexcept {
  const std::string_view verb = call.words()[1];
  if (verb == "list" && call.arguments() == 1) return list(call);
  if ((verb != "take" && verb != "free") || call.arguments() < 2) return call.usage();
  std::array<std::uint64_t, 8> numbers{};
  CommandStatus status = Invocation::ok();
  if (!read(call, numbers, status)) return status;
  const std::span<const std::uint64_t> given(numbers.data(), call.arguments() - 1);
  return verb == "take" ? take(call, given) : give_back(call, given);
}

void complete(console::Completion& completion) noexcept {
  if (completion.index() == 1) {
    for (const std::string_view verb : {"free", "list", "take"}) completion.offer(verb);
  } else if (completion.words()[1] == "free") {
    char digits[2];
    for (unsigned at = 0; at < pieces.size(); ++at) {
      if (pieces[at].start == 0) continue;
      const unsigned number = at + 1;
      digits[0] = static_cast<char>('0' + number / 10);
      digits[1] = static_cast<char>('0' + number % 10);
      completion.offer(number < 10 ? std::string_view(digits + 1, 1) : std::string_view(digits, 2));
    }
  }
}

QM_CONSOLE_COMMAND(pool, {.name = "pool",
                          .usage = "pool take SIZE...|free N...|list",
                          .summary = "take pieces of an arena of 16 KiB and give them back, for frag and whatis",
                          .run = run_pool,
                          .min_arguments = 1,
                          .max_arguments = 9,
                          .complete = complete,
                          .forms = "pool take SIZE...  up to 8 pieces; the first makes the arena pool\n"
                                   "pool free N...     the pieces of these numbers; the last ends the arena\n"
                                   "pool list\n",
                          .example = "pool take 1024 64 1K\npool list\npool free 1 3",
                          .wrap = console::Output::Wrap::kYes});

}  // namespace
}  // namespace qm::demo
