/* A firmware in C with the least memory that a heap can start in: LITTLE_BYTES. It serves blocks until it is full, gets
 * all of them back, and does so again. */
#include "board.h"

void board_main(void) {
  enum { MOST = 64 };
  void* blocks[MOST];
  unsigned before = 0;
  CHECK(qm_init(__heap_start, 512) != QM_OK);
  CHECK(qm_init(__heap_start, LITTLE_BYTES) == QM_OK);
  for (unsigned round = 0; round < 10; ++round) {
    unsigned count = 0;
    while (count < MOST && (blocks[count] = qm_malloc(32)) != 0) memset(blocks[count++], 0x5a, 32);
    CHECK(count >= 10 && count < MOST);
    CHECK(round == 0 || count == before);
    before = count;
    while (count != 0) qm_free(blocks[--count]);
  }
  put("the allocator works\n");
  board_done();
}
