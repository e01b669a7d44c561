/* Counts instructions without the help of the processor's counters: runs a command, and single-steps it from SIGUSR1 to
   SIGUSR2. Every count is a line on stderr. */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char** words) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    execvp(words[1], words + 1);
    return 127;
  }
  (void)count;
  int status = 0, counting = 0, pass_on = 0;
  long steps = 0;
  waitpid(child, &status, 0);
  for (;;) {
    ptrace(counting ? PTRACE_SINGLESTEP : PTRACE_CONT, child, 0, (long)pass_on);
    pass_on = 0;
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) break;
    const int signal = WSTOPSIG(status);
    if (signal == SIGUSR1) {
      counting = 1;
      steps = 0;
    } else if (signal == SIGUSR2) {
      counting = 0;
      fprintf(stderr, "instructions %ld\n", steps);
    } else if (signal == SIGTRAP) {
      steps += counting;
    } else {
      pass_on = signal;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
