/* The small build with the trace, in 16 KB of RAM: firmware that leaks 20 packets and reports them with stacks. */
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

static qm_cache* packets;

#define NOT_INLINED __attribute__((noinline))

NOT_INLINED static void* new_packet(void) { return qm_cache_alloc(packets, 0); }

NOT_INLINED static void checksum_error(void) {
  const void* packet = new_packet();
  CHECK(packet != 0);
  put("leaked ");
  put_address((uintptr_t)packet);
  put("\n");
}

NOT_INLINED static void receive(unsigned number) {
  if (number % 10 == 3) {
    checksum_error();
    return;
  }
  void* packet = new_packet();
  CHECK(packet != 0);
  qm_cache_free(packets, packet);
}

static bool print(const qm_trace_record* record, void* priv) {
  ++*(unsigned*)priv;
  put("Obj ");
  put_address(record->object);
  put("\n");
  for (unsigned i = 0; i < record->depth; ++i) {
    put(" ");
    put_address(record->stack[i]);
    put("\n");
  }
  return true;
}

void board_main(void) {
  const qm_trace_config config = {512, 1024, 0};
  qm_trace_summary summary;
  unsigned shown = 0;
  CHECK(qm_init(__heap_start, (size_t)(__heap_end - __heap_start)) == QM_OK);
  CHECK(qm_trace_init(&config) == QM_OK);
  packets = qm_cache_create("packet", 40, 0, 0, 0, 0, 0, 0);
  CHECK(packets != 0);
  CHECK(qm_trace_start("packet") == QM_OK);
  for (unsigned i = 0; i < 200; ++i) receive(i);
  CHECK(qm_trace_stop("*") == QM_OK);
  CHECK(qm_trace_foreach(0, print, &shown, &summary) == QM_OK);
  put("outstanding ");
  put_number(summary.shown, 10, 1);
  put(", recorded ");
  put_number((uintptr_t)summary.recorded, 10, 1);
  put(", free ");
  put_number(qm_arena_free_bytes(qm_base_arena()), 10, 1);
  put(summary.complete ? ": complete\n" : ": incomplete\n");
  board_end(shown == 20 && summary.complete ? 0 : 1);
}
