/* agree: prints /proc/meminfo, mallinfo(), and the console's `free` and `kmemstat` at one moment. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <qm_nuttx.h>

int main(int argc, char* argv[]) {
  static char text[512];
  (void)argc;
  (void)argv;
  printf("begin\n"); /* makes the stream allocate its buffer */
  const int file = open("/proc/meminfo", O_RDONLY);
  const ssize_t length = read(file, text, sizeof text - 1);
  const struct mallinfo info = mallinfo();
  (void)qm_nuttx_run("free -b; kmemstat -b");
  close(file);
  if (length <= 0) return 1;
  text[length] = 0;
  printf("%smallinfo %d %d %d %d %d %d %d\n", text, info.arena, info.uordblks, info.fordblks, info.usmblks,
         info.mxordblk, info.aordblks, info.ordblks);
  return 0;
}
