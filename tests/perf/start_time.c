// SPDX-License-Identifier: Apache-2.0
// start_time COUNT PROGRAM ARGUMENT...: runs a program COUNT times without its stdout; for each run
// a line with its microseconds, those of them on a processor, and its most resident memory in kB.
// Small itself: a process begins with the memory of the one that it was forked from.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double microseconds(struct timeval t) { return (double)t.tv_sec * 1e6 + (double)t.tv_usec; }

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int i = atoi(argv[1]); i > 0; --i) {
    struct timespec from, to;
    struct rusage used;
    int status = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    const pid_t child = vfork();
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), 1);
      execvp(argv[2], argv + 2);
      _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) return 1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.0f %.0f %ld\n",
           (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3,
           microseconds(used.ru_utime) + microseconds(used.ru_stime), used.ru_maxrss);
  }
  return 0;
}
