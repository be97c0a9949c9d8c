// profile.proto of github.com/google/pprof, field by field; protozero does the encoding, zlib the compression.

#include <zlib.h>

#include <algorithm>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <tuple>
#include <unordered_map>

#include <qm/analysis/export.hpp>
#include <qm/host/error.hpp>

#include "export_text.hpp"

namespace qm::analysis {
namespace {

enum ProfileField : protozero::pbf_tag_type {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kDurationNanos = 10,
  kComment = 13,
  kDefaultSampleType = 14
};

/// @returns @p value rounded to an integer of the format and clamped to its range.
std::int64_t whole(double value) {
  constexpr double kMost = 9223372036854774784.0;  // the last double below 2^63
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

/// The profile while it is built. Messages refer to one another by numbers, which begin with 1; strings are numbered
/// from 0, which is "".
class Profile {
 public:
  Profile() { (void)string(""); }

  void sample_type(const char* type, const char* unit) {
    protozero::pbf_writer message(writer_, kSampleType);
    message.add_int64(1, string(type));
    message.add_int64(2, string(unit));
  }
  void mapping(const std::string& file, const std::string& build_id) {
    protozero::pbf_writer message(writer_, kMapping);
    message.add_uint64(1, 1);
    message.add_uint64(3, ~std::uint64_t{0} >> 1);
    message.add_int64(5, string(file));
    message.add_int64(6, string(build_id));
    // The profile has names, files, lines and inlined frames, so pprof need not look for an image.
    for (const protozero::pbf_tag_type flag : {7, 8, 9, 10}) message.add_bool(flag, true);
  }
  void sample(const StackEntry& stack);
  std::string finish(double seconds);

 private:
  std::int64_t string(const std::string& text) {
    const auto [entry, is_new] = strings_.try_emplace(text, static_cast<std::int64_t>(strings_.size()));
    if (is_new) table_.push_back(text);
    return entry->second;
  }
  std::uint64_t function(const std::string& name, const std::string& file);
  std::uint64_t location(const StackFrame* first, const StackFrame* last);

  std::string bytes_;
  protozero::pbf_writer writer_{bytes_};
  std::unordered_map<std::string, std::int64_t> strings_;
  std::vector<std::string> table_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> functions_;
  std::map<std::tuple<std::uint64_t, std::string, unsigned>, std::uint64_t> locations_;  // by address, function, line
};

std::uint64_t Profile::function(const std::string& name, const std::string& file) {
  const auto [entry, is_new] = functions_.try_emplace({name, file}, functions_.size() + 1);
  if (is_new) {
    protozero::pbf_writer message(writer_, kFunction);
    message.add_uint64(1, entry->second);
    message.add_int64(2, string(name));
    message.add_int64(3, string(name));
    message.add_int64(4, string(file));
  }
  return entry->second;
}

/// @returns the location of one address with the frames [first, last), the innermost first.
std::uint64_t Profile::location(const StackFrame* first, const StackFrame* last) {
  const auto [entry, is_new] =
      locations_.try_emplace({first->pc, first->frame.function, first->frame.line}, locations_.size() + 1);
  if (!is_new) return entry->second;
  std::vector<std::uint64_t> functions;
  for (const StackFrame* frame = first; frame != last; ++frame)
    functions.push_back(function(frame_name(*frame), frame->frame.file));
  protozero::pbf_writer message(writer_, kLocation);
  message.add_uint64(1, entry->second);
  message.add_uint64(2, 1);
  message.add_uint64(3, first->pc);
  for (const StackFrame* frame = first; frame != last; ++frame) {
    protozero::pbf_writer line(message, 4);
    line.add_uint64(1, functions[static_cast<std::size_t>(frame - first)]);
    line.add_int64(2, frame->frame.line);
  }
  return entry->second;
}

void Profile::sample(const StackEntry& stack) {
  std::vector<std::uint64_t> locations;
  const std::span<const StackFrame> frames = stack.callers();
  const StackFrame* const end = frames.data() + frames.size();
  for (const StackFrame* first = frames.data(); first != end;) {
    const StackFrame* last = first;
    while (last + 1 != end && last->frame.inlined) ++last;
    locations.push_back(location(first, last + 1));
    first = last + 1;
  }
  if (locations.empty()) {
    const StackFrame nameless{0, {stack.name, "", 0, false}};
    locations.push_back(location(&nameless, &nameless + 1));
  }
  // One sample for each cache, for pprof's -tags and -tagfocus.
  for (const auto& [cache, of] : stack.by_source) {
    const std::int64_t values[] = {whole(of.allocations), whole(of.allocated), whole(of.live_objects),
                                   whole(of.live_bytes)};
    const std::int64_t labels[][2] = {{string("cache"), string(cache)},
                                      {string("site"), string(stack.origin.call_site)}};
    protozero::pbf_writer message(writer_, kSample);
    message.add_packed_uint64(1, locations.begin(), locations.end());
    message.add_packed_int64(2, std::begin(values), std::end(values));
    for (const auto& [key, value] : labels) {
      if (value == 0) continue;  // ""
      protozero::pbf_writer label(message, 3);
      label.add_int64(1, key);
      label.add_int64(2, value);
    }
  }
}

std::string Profile::finish(double seconds) {
  writer_.add_int64(kDurationNanos, whole(seconds * 1e9));
  writer_.add_int64(kDefaultSampleType, string("inuse_space"));
  for (const std::string& text : table_) writer_.add_string(kStringTable, text);
  return bytes_;
}

std::string compressed(const std::string& bytes) {
  z_stream stream{};
  // 15 + 16: with a gzip header.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw host::Error(host::Fault::kOpen, "zlib does not start");
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw host::Error(host::Fault::kOpen, "the profile cannot be compressed");
  return out;
}

}  // namespace

std::string export_pprof(const Report& report) {
  const Summary& summary = *report.summary;
  Profile profile;
  profile.sample_type("alloc_objects", "count");
  profile.sample_type("alloc_space", "bytes");
  profile.sample_type("inuse_objects", "count");
  profile.sample_type("inuse_space", "bytes");
  profile.mapping(report.file, summary.definitions().header.build_id);
  for (const StackEntry& stack : report.stacks) profile.sample(stack);
  return compressed(profile.finish(summary.seconds(summary.last_ticks())));
}

}  // namespace qm::analysis
