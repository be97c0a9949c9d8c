/* Records the allocations of a Linux program, as a trace for encode_recording:
 *
 *     QM_RECORD=OUT.trace QM_RECORD_OPERATIONS=60000 LD_PRELOAD=librecord_allocations.so PROGRAM...
 *
 * OUT.trace must not exist: if it does, a line on stderr says that nothing is recorded. The first process that
 * allocates creates it and is recorded; its child processes are not, and find QM_RECORD empty. At most
 * QM_RECORD_OPERATIONS operations are recorded, if it is set. A block gets the slot that was freed last, or a new one.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The functions of glibc, under names that this file does not replace. */
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* block, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void* block);

enum { kPlaces = 1 << 21, kNone = kPlaces };

/* Live blocks, by address: a hash table with linear probing, at most half full. */
static struct place {
  void* block;
  uint32_t slot;
} places[kPlaces];
static uint32_t free_slots[kPlaces], free_count, slot_count;
static char text[1 << 16];
static size_t text_bytes;
static unsigned long operations_left;
static int file = -1;
static pid_t recorded;
static unsigned last_thread = ~0U;
static atomic_uint threads;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static __thread unsigned thread_number __attribute__((tls_model("initial-exec")));

static void flush(void) {
  for (size_t done = 0; done < text_bytes;) {
    const ssize_t written = write(file, text + done, text_bytes - done);
    if (written <= 0) break;
    done += (size_t)written;
  }
  text_bytes = 0;
}

static void stop(void) {
  flush();
  file = -1;
}

/* Writes to stderr without allocating: the lock is held. */
static void say_why_not(const char* path, int reason) {
  char line[512];
  const int length = snprintf(line, sizeof line, "librecord_allocations: nothing is recorded: %.400s %s (errno %d)\n",
                              path, reason == EEXIST ? "exists" : "cannot be created", reason);
  if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}

static void start(void) {
  char* const path = getenv("QM_RECORD");
  const char* const most = getenv("QM_RECORD_OPERATIONS");
  operations_left = most != NULL ? strtoul(most, NULL, 10) : ~0UL;
  recorded = getpid();
  if (path == NULL || *path == '\0') return;
  file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) say_why_not(path, errno);
  *path = '\0'; /* in the environment: a program that this process starts is not recorded, and says nothing */
}

/* Whether the caller is recorded; if so, the lock is taken. A child of the recorded process is not recorded. */
static int begin(void) {
  if (recorded != 0 && (file < 0 || getpid() != recorded)) return 0;
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) continue;
  if (recorded == 0) start();
  if (file >= 0) return 1;
  atomic_flag_clear_explicit(&busy, memory_order_release);
  return 0;
}

static void end(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static uint32_t home_of(const void* block) { return (uint32_t)(((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15ULL >> 43); }

static uint32_t place_of(const void* block) {
  uint32_t place = home_of(block);
  while (places[place].block != block && places[place].block != NULL) place = (place + 1) % kPlaces;
  return place;
}

/* Removes the block, and moves entries that linear probing would not find beyond the gap. */
static uint32_t remove_block(const void* block) {
  uint32_t gap = place_of(block);
  if (places[gap].block == NULL) return kNone;
  const uint32_t slot = places[gap].slot;
  for (uint32_t place = (gap + 1) % kPlaces; places[place].block != NULL; place = (place + 1) % kPlaces) {
    const uint32_t home = home_of(places[place].block);
    if ((place - home) % kPlaces < (place - gap) % kPlaces) continue;
    places[gap] = places[place];
    gap = place;
  }
  places[gap].block = NULL;
  return slot;
}

static void put_block(void* block, uint32_t slot) { places[place_of(block)] = (struct place){block, slot}; }

static void write_line(char verb, uint32_t slot, size_t bytes) {
  if (file < 0) return;
  if (thread_number == 0) thread_number = atomic_fetch_add(&threads, 1) + 1;
  if (sizeof text - text_bytes < 64) flush();
  char* const line = text + text_bytes;
  int length = 0;
  if (thread_number != last_thread) length = sprintf(line, "t %u\n", thread_number - 1);
  last_thread = thread_number;
  length +=
      verb == 'f' ? sprintf(line + length, "f %u\n", slot) : sprintf(line + length, "%c %u %zu\n", verb, slot, bytes);
  text_bytes += (size_t)length;
  if (--operations_left == 0 || slot_count == kPlaces / 2) stop();
}

static void allocated(void* block, size_t bytes) {
  if (block == NULL) return;
  const uint32_t slot = free_count != 0 ? free_slots[--free_count] : slot_count++;
  put_block(block, slot);
  write_line('a', slot, bytes);
}

static void freed(void* block) {
  const uint32_t slot = remove_block(block);
  if (slot == kNone) return; /* NULL, or allocated before the recording */
  free_slots[free_count++] = slot;
  write_line('f', slot, 0);
}

void* malloc(size_t bytes) {
  const int recording = begin();
  void* const block = __libc_malloc(bytes);
  if (recording) allocated(block, bytes), end();
  return block;
}

void* calloc(size_t count, size_t bytes) {
  const int recording = begin();
  void* const block = __libc_calloc(count, bytes);
  if (recording) allocated(block, count * bytes), end();
  return block;
}

void free(void* block) {
  const int recording = begin();
  if (recording) freed(block);
  __libc_free(block);
  if (recording) end();
}

/* With 0 bytes glibc frees the block. */
void* realloc(void* block, size_t bytes) {
  const int recording = begin();
  void* const resized = __libc_realloc(block, bytes);
  if (!recording) return resized;
  if (block == NULL) {
    allocated(resized, bytes);
  } else if (bytes == 0) {
    freed(block);
  } else if (resized != NULL) {
    const uint32_t slot = remove_block(block);
    if (slot == kNone) {
      allocated(resized, bytes);
    } else {
      put_block(resized, slot);
      write_line('r', slot, bytes);
    }
  }
  end();
  return resized;
}

void* memalign(size_t alignment, size_t bytes) {
  const int recording = begin();
  void* const block = __libc_memalign(alignment, bytes);
  if (recording) allocated(block, bytes), end();
  return block;
}

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block != NULL ? 0 : ENOMEM;
}

__attribute__((destructor)) static void finish(void) {
  if (begin()) stop(), end();
}
