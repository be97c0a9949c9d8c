#include <qm/host/report_row.hpp>

#include <algorithm>
#include <cstdio>

namespace qm::host {
namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (byte < 0x20 || byte > 0x7e) {  // a byte that is not ASCII need not be UTF-8
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(byte));
      out += escape;
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string value_of(const ReportRow::Field& field) {
  switch (field.type) {
    case wire::FieldType::kChange: return std::to_string(static_cast<std::int64_t>(field.number));
    case wire::FieldType::kText: return json_text(field.text);
    case wire::FieldType::kAddress: {
      char text[24];
      std::snprintf(text, sizeof text, "\"0x%llx\"", static_cast<unsigned long long>(field.number));
      return text;
    }
    case wire::FieldType::kNumber: break;
  }
  return std::to_string(field.number);
}

void append_fields(std::string& out, const ReportRow& row) {
  for (const ReportRow::Field& field : row.fields) {
    if (out.back() != '{') out += ',';
    out += json_text(field.name) + ':' + value_of(field);
  }
}

}  // namespace

const ReportRow::Field* ReportRow::find(std::string_view name) const noexcept {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

std::uint64_t ReportRow::number(std::string_view name) const noexcept {
  const Field* field = find(name);
  return field != nullptr ? field->number : 0;
}

std::string_view ReportRow::text(std::string_view name) const noexcept {
  const Field* field = find(name);
  return field != nullptr ? std::string_view(field->text) : std::string_view();
}

bool read_row(std::span<const std::uint8_t> payload, ReportRow& row) {
  wire::RowReader reader(payload);
  row = {std::string(reader.kind()), {}};
  wire::Field field;
  while (reader.next(field))
    row.fields.push_back({std::string(field.name), field.type, field.number, std::string(field.text)});
  return reader.good();
}

std::string JsonRows::add(const ReportRow& row) {
  if (row.kind == "frame" && !open_.empty()) {
    open_ += in_frames_ ? ",{" : ",\"frames\":[{";
    append_fields(open_, row);
    open_ += '}';
    in_frames_ = true;
    return {};
  }
  std::string done = finish();
  open_ = "{\"row\":" + json_text(row.kind);
  append_fields(open_, row);
  return done;
}

std::string JsonRows::finish() {
  if (open_.empty()) return {};
  std::string done = std::move(open_) + (in_frames_ ? "]}\n" : "}\n");
  open_.clear();
  in_frames_ = false;
  return done;
}

}  // namespace qm::host
