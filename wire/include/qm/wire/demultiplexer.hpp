#pragma once
/// Separates the bytes from the line into text and frames, one byte at a time.
///
///     text ──ESC──▶ escape ──P──▶ introducer ──m──▶ body ──ESC──▶ body escape ──\──▶ frame, or broken
///                                                    │ announced length reached, CRC right
///                                                    └──▶ end ──ESC──▶ end escape ──\──▶ frame
///          ──FF──▶ raw ──00──▶ frame, or broken      only where the sender has said that it sends raw frames
///                   └──▶ raw end ──00──▶ frame       announced length reached, CRC right
///
/// Invariants
///  1. A byte outside `ESC P ... ESC \` is returned as text, in order and exactly once; other escape sequences (arrow
///     keys) are text.
///  2. A frame is returned iff its armour, length and CRC are right, its version is supported and it fits in the
///     buffer.
///  3. Each broken frame is reported once, with the first reason found, before any text that follows it. A frame whose
///     beginning passed as text or was given up is recognised by its terminator (kTail).
///  4. A broken string ends at `ESC \`, CR, LF, Ctrl-C, another escape sequence, or timeout(); all of these but the
///     first are text. A complete frame with a damaged terminator ends where its length says, and text after it is
///     kept. So at most the rest of the line in which a frame was cut short is lost, and at most the rest of that frame
///     is added to the text.
///  5. All memory is the caller's buffer; a longer frame is read to its end and reported as too long.
///  6. Raw frames are accepted from an intact kForm frame that announces them until one that revokes them. Meanwhile 00
///     ends every frame, including armoured ones, and is not text; so damage costs at most one further frame.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/wire/crc32.hpp>
#include <qm/wire/frame.hpp>

namespace qm::wire {

/// Why a frame was rejected.
enum class Broken : std::uint8_t {
  kNone,
  kCharacter,     ///< it has a character that is not base64, or its base64 is not canonical
  kChecksum,      ///< the CRC is wrong
  kLength,        ///< it is shorter or longer than its header says
  kTooLong,       ///< intact, but longer than the buffer; header() is valid
  kVersion,       ///< intact, but of an unsupported version; header() is valid
  kUnterminated,  ///< intact, but not followed by `ESC \`
  kInterrupted,   ///< CR, LF, Ctrl-C or another escape sequence inside it
  kTimedOut,      ///< timeout() inside it
  kForeign,       ///< a DCS string that does not begin with `m`: not a frame, or damaged at that place
  kTail,          ///< `ESC \` in the text: the text since the last line end or broken frame may be the rest of a frame
};

/// @returns a short description of @p reason.
constexpr std::string_view name(Broken reason) noexcept {
  switch (reason) {
    case Broken::kNone: return "intact";
    case Broken::kCharacter: return "bad character";
    case Broken::kChecksum: return "wrong checksum";
    case Broken::kLength: return "wrong length";
    case Broken::kTooLong: return "too long";
    case Broken::kVersion: return "other version";
    case Broken::kUnterminated: return "not terminated";
    case Broken::kInterrupted: return "interrupted";
    case Broken::kTimedOut: return "timed out";
    case Broken::kForeign: return "foreign string";
    case Broken::kTail: return "tail without a frame";
  }
  return "unknown";
}

class Demultiplexer {
 public:
  /// The result of one byte, or of a silence: at most one frame or broken frame, followed by at most two bytes of text.
  struct Step {
    bool frame = false;             ///< frame() is valid until the next push()
    Broken broken = Broken::kNone;  ///< kNone, or the reason why a frame was rejected
    std::uint8_t text_count = 0;
    std::uint8_t text[2] = {0, 0};
  };

  /// The fields that are certain in a frame that was rejected with kTooLong or kVersion.
  struct Header {
    std::uint8_t version = 0;
    std::uint8_t type = 0;
    std::uint16_t sequence = 0;
    std::uint32_t request = 0;  ///< 0 if not known
  };

  /// @returns the size of a buffer for frames with up to @p payload_bytes.
  static constexpr std::size_t buffer_bytes(std::size_t payload_bytes) noexcept {
    return kHeaderBytes + payload_bytes + kCrcBytes;
  }

  /// The side of the line that this object is on: a host accepts raw frames after a form frame that announces them.
  enum class Side : bool { kTarget, kHost };

  /// @param[in] buffer at least buffer_bytes(0) bytes; it stays the caller's and must outlive this object.
  /// @param[in] oldest the oldest version that is accepted. A capture of an older version can be read, since its
  ///                   streams are the same.
  explicit Demultiplexer(std::span<std::uint8_t> buffer, Side side = Side::kHost,
                         std::uint8_t oldest = kProtocolVersion) noexcept
      : buffer_(buffer), side_(side), oldest_(oldest) {}

  /// Processes the next byte. Complexity: O(1). Context: one caller at a time.
  [[nodiscard]] Step push(std::uint8_t byte) noexcept;

  /// Gives up an unfinished frame. To be called if waiting() and no byte has arrived for kSilenceMs.
  [[nodiscard]] Step timeout() noexcept;

  /// @returns whether a byte is held back or a frame has begun, so that timeout() may have to be called.
  [[nodiscard]] bool waiting() const noexcept { return state_ != State::kText; }

  /// The frame of the last step. Its payload lies in the buffer.
  [[nodiscard]] const Frame& frame() const noexcept { return frame_; }

  /// Whether raw frames are accepted.
  [[nodiscard]] bool raw() const noexcept { return raw_; }

  /// The header of the last step's frame; for a broken frame see Header.
  [[nodiscard]] const Header& header() const noexcept { return header_; }

  /// Counts since construction. A frame that breaks into several pieces counts once.
  [[nodiscard]] std::uint32_t frames() const noexcept { return frames_; }
  [[nodiscard]] std::uint32_t broken() const noexcept { return broken_; }

 private:
  enum class State : std::uint8_t {
    kText,
    kEscape,         // ESC held back
    kIntroducer,     // ESC P seen
    kBody,           // ESC P m seen
    kBodyEscape,     // ESC in the body
    kEnd,            // an intact frame's last character seen
    kEndEscape,      // and ESC
    kEndIntroducer,  // and ESC P: a new frame, or a damaged terminator
    kEndOther,       // and another byte, held back
    kRawBody,        // FF seen
    kRawDone,        // an intact raw frame's last byte seen
  };

  Step text(std::uint8_t byte) noexcept;
  Step in_body(std::uint8_t byte) noexcept;
  Step in_end(std::uint8_t byte) noexcept;
  Step in_raw(std::uint8_t byte) noexcept;
  Step then_text(Step step, std::uint8_t byte) noexcept;
  Step give_up(Broken reason) noexcept;
  Step finish() noexcept;
  void begin(bool inside_another) noexcept;
  void decode(std::uint8_t character) noexcept;
  void store(std::uint8_t byte) noexcept;
  [[nodiscard]] bool intact() const noexcept;
  [[nodiscard]] Broken classify() const noexcept;
  void read_header() noexcept;

  std::span<std::uint8_t> buffer_;
  Side side_;
  std::uint8_t oldest_;
  Frame frame_;
  Header header_;
  Crc32 crc_;
  std::uint32_t count_ = 0;      // bytes decoded, whether stored or not
  std::uint32_t announced_ = 0;  // length of the whole frame in bytes, from its header
  std::uint32_t group_ = 0;
  std::uint32_t frames_ = 0;
  std::uint32_t broken_ = 0;
  std::uint8_t group_count_ = 0;
  std::uint8_t held_ = 0;
  std::uint8_t run_ = 0;   // in a raw frame: bytes left in the run
  bool zero_due_ = false;  // whether a 0 stands before the next run
  bool raw_ = false;
  State state_ = State::kText;
  bool bad_character_ = false;
  bool padded_ = false;
  bool foreign_ = false;
  bool inside_another_ =
      false;  // this string began inside a broken frame: it counts as its part unless it turns out intact
  bool tail_counted_ = false;  // a broken frame has been counted, and the rest of it may follow
};

/// Counts the frames that a receiver has missed, from their sequence numbers.
class SequenceCheck {
 public:
  /// @returns the number of frames lost before the frame numbered @p sequence; 0 for the first frame. At most 65535:
  ///          larger losses look like smaller ones.
  std::uint16_t lost_before(std::uint16_t sequence) noexcept {
    const std::uint16_t lost = started_ ? static_cast<std::uint16_t>(sequence - expected_) : std::uint16_t{0};
    started_ = true;
    expected_ = static_cast<std::uint16_t>(sequence + 1);
    return lost;
  }

 private:
  std::uint16_t expected_ = 0;
  bool started_ = false;
};

}  // namespace qm::wire
