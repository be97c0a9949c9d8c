/// qm_bench_usage PROGRAM [ARGUMENT...]: runs the program, and prints one line on standard output: its processor time in
/// microseconds, children included, and the peak of the resident memory of its largest process in KiB. The program's own
/// output is thrown away. Ends with the program's status; 126 if it cannot be started.
///
/// A process begins with the memory of its parent, which counts as its peak: so the parent must be as small as this one.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0) execvp(arguments[1], arguments + 1);
    std::perror(arguments[1]);
    _exit(126);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return 126;
  const auto microseconds = [](const timeval& time) { return 1'000'000LL * time.tv_sec + time.tv_usec; };
  std::printf("%lld %ld\n", microseconds(usage.ru_utime) + microseconds(usage.ru_stime), usage.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
