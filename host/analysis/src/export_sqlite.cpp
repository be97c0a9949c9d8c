#include <fmt/core.h>
#include <sqlite3.h>

#include <qm/analysis/export.hpp>
#include <qm/host/error.hpp>

#include "export_text.hpp"

namespace qm::analysis {
namespace {

[[noreturn]] void fail(sqlite3* database) {
  throw host::Error(host::Fault::kOpen, std::string("SQLite: ") + sqlite3_errmsg(database));
}

/// A prepared statement, run once for each row.
class Statement {
 public:
  Statement(sqlite3* database, const char* text) : database_(database) {
    if (sqlite3_prepare_v2(database, text, -1, &statement_, nullptr) != SQLITE_OK) fail(database);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  template <class... Values>
  void run(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    if (sqlite3_step(statement_) != SQLITE_DONE) fail(database_);
    sqlite3_reset(statement_);
  }

 private:
  // SQLite's integers are signed, and addresses are stored as such. A text must stay valid until the row is stored.
  void bind(int column, std::uint64_t value) {
    sqlite3_bind_int64(statement_, column, static_cast<sqlite3_int64>(value));
  }
  void bind(int column, std::uint32_t value) { bind(column, std::uint64_t{value}); }
  void bind(int column, std::uint16_t value) { bind(column, std::uint64_t{value}); }
  void bind(int column, bool value) { bind(column, std::uint64_t{value}); }
  void bind(int column, double value) { sqlite3_bind_double(statement_, column, value); }
  void bind(int column, const char* text) { sqlite3_bind_text(statement_, column, text, -1, SQLITE_STATIC); }
  void bind(int column, const std::string& text) {
    sqlite3_bind_text(statement_, column, text.c_str(), static_cast<int>(text.size()), SQLITE_STATIC);
  }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

constexpr const char* kSchema = R"sql(
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
BEGIN;
CREATE TABLE capture (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE traceables (number INTEGER PRIMARY KEY, kind TEXT, name TEXT, object_bytes INTEGER, outstanding_before INTEGER);
CREATE TABLE stacks (number INTEGER PRIMARY KEY, id TEXT, truncated INTEGER, collided INTEGER);
CREATE TABLE frames (stack INTEGER REFERENCES stacks, depth INTEGER, pc INTEGER, function TEXT, file TEXT, line INTEGER,
                     inlined INTEGER, PRIMARY KEY (stack, depth)) WITHOUT ROWID;
CREATE TABLE call_sites (number INTEGER PRIMARY KEY, file TEXT, line INTEGER, function TEXT, module TEXT);
CREATE TABLE contexts (number INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE events (number INTEGER PRIMARY KEY, ticks INTEGER, seconds REAL, hart INTEGER, context INTEGER REFERENCES contexts,
                     operation TEXT, traceable INTEGER REFERENCES traceables, address INTEGER, old_address INTEGER,
                     requested INTEGER, allocated INTEGER, flags INTEGER, stack INTEGER REFERENCES stacks,
                     call_site INTEGER REFERENCES call_sites, weight REAL);
CREATE TABLE gaps (hart INTEGER, why TEXT, events INTEGER, after INTEGER);
)sql";

class Sqlite final : public EventExport {
 public:
  Sqlite(const Report& report, const std::filesystem::path& path) : EventExport(report) {
    empty(path);
    sqlite3* opened = nullptr;
    const int result = sqlite3_open(path.c_str(), &opened);
    database_.reset(opened);
    if (result != SQLITE_OK) fail(opened);
    execute(kSchema);
    define();
    event_ =
        std::make_unique<Statement>(opened, "INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    gap_ = std::make_unique<Statement>(opened, "INSERT INTO gaps VALUES (?,?,?,?)");
  }

  void finish() override { execute("COMMIT"); }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
  };

  /// Empties the file, because SQLite would add to its contents. Anything but a regular file is left as it is.
  static void empty(const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) return;
    if (!std::filesystem::is_regular_file(status))
      throw host::Error(host::Fault::kOpen, "cannot write " + path.string() + ": SQLite needs a regular file");
    std::filesystem::resize_file(path, 0, error);
    if (error) throw host::Error(host::Fault::kOpen, "cannot write " + path.string() + ": " + error.message());
  }

  void execute(const char* text) {
    if (sqlite3_exec(database_.get(), text, nullptr, nullptr, nullptr) != SQLITE_OK) fail(database_.get());
  }

  void define();
  void define_stacks();

  void write(const host::Event& event) override {
    event_->run(event.number, event.ticks, report().summary->seconds(event.ticks), event.hart, event.context,
                operation_name(event.operation), event.traceable, event.address, event.old_address, event.requested,
                event.allocated, event.flags, event.stack, event.call_site, event.weight);
  }
  void write(const host::Gap& gap) override {
    gap_->run(gap.hart, gap.why == host::Missing::kOverrun ? "overrun" : "line", gap.events, gap.after);
  }

  std::unique_ptr<sqlite3, Close> database_;
  std::unique_ptr<Statement> event_, gap_;  // destroyed before the database
};

void Sqlite::define() {
  sqlite3* const database = database_.get();
  const Summary& summary = *report().summary;
  Statement capture(database, "INSERT INTO capture VALUES (?,?)");
  capture.run("file", report().file);
  capture.run("build_id", definitions().header.build_id);
  capture.run("ticks_per_second", fmt::format("{}", definitions().header.ticks_per_second));
  capture.run("stream", fmt::format("{} of {}", summary.stream(), summary.streams()));
  capture.run("complete", report().problems.empty() ? "yes" : "no");
  std::string problems;
  for (const std::string& problem : report().problems) problems += problem + "\n";
  capture.run("problems", problems);
  Statement traceable(database, "INSERT INTO traceables VALUES (?,?,?,?,?)");
  for (const auto& [number, of] : definitions().traceables) {
    const char* const kind = of.kind == host::EventKind::kArena  ? "arena"
                             : of.kind == host::EventKind::kHeap ? "heap"
                                                                 : "cache";
    traceable.run(number, kind, of.name, of.object_bytes, of.outstanding);
  }
  Statement site(database, "INSERT INTO call_sites VALUES (?,?,?,?,?)");
  for (const auto& [number, of] : definitions().call_sites) site.run(number, of.file, of.line, of.function, of.module);
  Statement context(database, "INSERT INTO contexts VALUES (?,?)");
  for (const auto& [number, name] : definitions().contexts) context.run(number, name);
  define_stacks();
}

void Sqlite::define_stacks() {
  Statement stack(database_.get(), "INSERT INTO stacks VALUES (?,?,?,?)");
  Statement frame(database_.get(), "INSERT OR IGNORE INTO frames VALUES (?,?,?,?,?,?,?)");
  std::map<std::string, const StackEntry*> named;
  for (const StackEntry& entry : report().stacks) named.emplace(entry.origin.stack, &entry);
  for (const auto& [number, of] : definitions().stacks) {
    const std::string id = origin_of(definitions(), number, 0).stack;
    stack.run(number, id, of.truncated, of.collided);
    const auto entry = named.find(id);
    if (entry == named.end()) continue;  // no event of this report has this origin
    std::uint32_t depth = 0;
    for (const StackFrame& each : entry->second->frames) {
      if (each.pc == 0) continue;  // call sites have a table of their own
      frame.run(number, depth++, each.pc, each.frame.function, each.frame.file, std::uint32_t{each.frame.line},
                each.frame.inlined);
    }
  }
}

}  // namespace

std::unique_ptr<EventExport> export_sqlite(const Report& report, const std::filesystem::path& path) {
  return std::make_unique<Sqlite>(report, path);
}

}  // namespace qm::analysis
