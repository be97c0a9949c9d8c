/* small: what a start with a heap that is too small shows. In a copy of the image, NuttX's up_allocate_heap() jumps to
 * this program. */
#include <nuttx/config.h>

#include <nuttx/mm/mm.h>

#include <syslog.h>

#include <qm_nuttx.h>

int main(int argc, char* argv[]) {
  static char memory[64];
  (void)argc;
  (void)argv;
  struct mm_heap_s* const heap = mm_initialize("Umem", memory, sizeof memory);
  const bool fails =
      mm_malloc(heap, 1) == NULL && mm_memalign(heap, 64, 1) == NULL && mm_realloc(heap, NULL, 1) == NULL;
  mm_free(heap, memory);
  syslog(LOG_INFO, "small: status %d, %s, %d bytes\n", (int)qm_nuttx_status(), fails ? "no block" : "a block",
         mm_mallinfo(heap).arena);
  for (;;) {
  }
}
