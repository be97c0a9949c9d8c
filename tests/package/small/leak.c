/* A firmware in C with the allocator and its live trace: it loses packets on an error path, and sometimes a buffer,
 * and prints over its own UART which objects were lost and where they were allocated. */
#include "board.h"

static void put_number(uintptr_t number, unsigned base, unsigned digits) {
  char text[24];
  unsigned at = sizeof text;
  text[--at] = 0;
  do text[--at] = "0123456789abcdef"[number % base];
  while ((number /= base) != 0 || at > sizeof text - 1 - digits);
  put(text + at);
}

static void put_address(uintptr_t address) {
  put("0x");
  put_number(address, 16, 2 * sizeof address);
}

/* ---- the traced objects -------------------------------------------------------------------------------------------- */

static qm_cache* packets;
static unsigned lost;

#define NOT_INLINED __attribute__((noinline))

/* Prints a lost object, so that the test can compare. */
static void forget(const void* object) {
  ++lost;
  put("leaked ");
  put_address((uintptr_t)object);
  put("\n");
}

NOT_INLINED static void* new_packet(void) {
  void* packet = qm_cache_alloc(packets, 0);
  CHECK(packet != 0);
  return packet;
}

NOT_INLINED static void checksum_error(void) { forget(new_packet()); }

NOT_INLINED static void receive(unsigned number) {
  if (number % 10 == 3) {
    checksum_error();
    return;
  }
  void* packet = new_packet();
  qm_cache_free(packets, packet);
}

NOT_INLINED static void write_log(unsigned number) {
  void* text = qm_malloc(100 + number);
  void* line = qm_malloc(3000);
  CHECK(text != 0 && line != 0);
  qm_free(line);
  if (number % 20 == 7) {
    forget(text);
  } else {
    qm_free(text);
  }
}

/* ---- the report ---------------------------------------------------------------------------------------------------- */

static bool print(const qm_trace_record* record, void* priv) {
  ++*(unsigned*)priv;
  put("Obj ");
  put_address(record->object);
  put(", size ");
  put_number(record->requested, 10, 1);
  put(", from hart ");
  put_number(record->hart, 10, 1);
  put(":\n");
  for (unsigned i = 0; i < record->depth; ++i) {
    put("#");
    put_number(i + 1, 10, 2);
    put(" [<");
    put_address(record->stack[i]);
    put(">]\n");
  }
  put(record->truncated ? "(truncated)\n\n" : "\n");
  return true;
}

static void report(bool complete) {
  qm_trace_summary summary;
  unsigned shown = 0;
  CHECK(qm_trace_foreach(0, print, &shown, &summary) == QM_OK);
  CHECK(shown == summary.shown && shown == lost && summary.complete == complete);
  put("outstanding ");
  put_number(summary.shown, 10, 1);
  put(", recorded ");
  put_number((uintptr_t)summary.recorded, 10, 1);
  put(", dropped ");
  put_number((uintptr_t)summary.dropped, 10, 1);
  put(summary.complete ? ": complete\n" : ": incomplete\n");
}

void board_main(void) {
  const qm_trace_config config = {8192, 8192, 0};
  CHECK(qm_init(__heap_start, (size_t)(__heap_end - __heap_start)) == QM_OK);
  packets = qm_cache_create("packet", 200, 0, 0, 0, 0, 0, 0);
  CHECK(packets != 0);
  CHECK(qm_trace_start("packet") == QM_UNSAFE);
  CHECK(qm_trace_init(&config) == QM_OK);
  CHECK(qm_trace_start("packet") == QM_OK && qm_trace_start("kmalloc") == QM_OK);
  for (unsigned i = 0; i < 50; ++i) {
    receive(i);
    write_log(i);
  }
  CHECK(qm_trace_stop("*") == QM_OK);
  qm_cache_free(packets, qm_cache_alloc(packets, 0));
  report(true);
  put("the trace works\n");
  board_done();
}
