/// Rows as the host reads them, and as JSON.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include <qm/host/report_row.hpp>

namespace host_report_row_test {

using namespace qm;
using namespace qm::host;
using Type = wire::FieldType;

TEST(ReportRow, is_read_as_it_was_written) {
  std::array<std::uint8_t, 200> room;
  wire::RowWriter writer(room, "cache");
  writer.text("name", "packet");
  writer.number("used_bytes", 1ULL << 40);
  writer.change("objects", -5);
  writer.address("address", 0x80401000);
  EXPECT_TRUE(writer.whole());
  ReportRow row;
  ASSERT_TRUE(read_row(writer.written(), row));
  EXPECT_EQ(row.kind, "cache");
  ASSERT_EQ(row.fields.size(), 4u);
  EXPECT_EQ(row.find("name")->text, "packet");
  EXPECT_EQ(row.find("used_bytes")->number, 1ULL << 40);
  EXPECT_EQ(static_cast<std::int64_t>(row.find("objects")->number), -5);
  EXPECT_EQ(row.find("address")->type, Type::kAddress);
  EXPECT_EQ(row.find("colour"), nullptr);
}

TEST(ReportRow, leaves_out_a_field_without_room_and_keeps_the_next) {
  std::array<std::uint8_t, 24> room;
  wire::RowWriter writer(room, "text");
  writer.text("line", "too long for what is left");
  writer.number("n", 7);
  EXPECT_FALSE(writer.whole());
  ReportRow row;
  ASSERT_TRUE(read_row(writer.written(), row));
  ASSERT_EQ(row.fields.size(), 1u);
  EXPECT_EQ(row.find("n")->number, 7u);
}

TEST(ReportRow, that_is_cut_or_of_another_form_is_malformed) {
  std::array<std::uint8_t, 64> room;
  wire::RowWriter writer(room, "cache");
  writer.text("name", "packet");
  const auto whole = writer.written();
  ReportRow row;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A row may end after its kind.
    EXPECT_EQ(read_row(whole.first(size), row), size == 7) << size;
  }
  room[0] = 2;
  EXPECT_FALSE(read_row(whole, row));
  room[0] = wire::kRowForm;
  room[7 + 5] = 9;  // a type that does not exist
  EXPECT_FALSE(read_row(whole, row));
}

TEST(JsonRows, are_an_object_a_line_and_frames_a_list_of_the_row_before) {
  JsonRows json;
  std::string all = json.add({"text", {{"line", Type::kText, 0, "a \"b\" \\ \x1b\xff"}}});
  all += json.add({"object", {{"address", Type::kAddress, 0x80041280, {}}, {"change", Type::kChange, ~0ULL, {}}}});
  all += json.add({"frame", {{"function", Type::kText, 0, "packet_alloc"}}});
  all += json.add({"frame", {{"offset", Type::kNumber, 18, {}}}});
  EXPECT_EQ(all, "{\"row\":\"text\",\"line\":\"a \\\"b\\\" \\\\ \\u001b\\u00ff\"}\n")
      << "a row is complete when the next comes";
  all = json.add({"end", {}});
  EXPECT_EQ(all,
            "{\"row\":\"object\",\"address\":\"0x80041280\",\"change\":-1,\"frames\":[{\"function\":\"packet_alloc\"},"
            "{\"offset\":18}]}\n");
  EXPECT_EQ(json.finish(), "{\"row\":\"end\"}\n");
  EXPECT_EQ(json.finish(), "");
}

}  // namespace host_report_row_test
