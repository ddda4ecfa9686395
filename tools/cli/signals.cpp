// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/signals.h"

#include "runtime/files/output_file.h"

namespace sinter::tools {
namespace {

void clean_up_and_end(int signal) {
  files::remove_temporary_files();
  // Restores the default action, so that the caller sees the signal. A library may have reinstalled
  // this handler without its flags (NVRTC 13.0 does); then the handler is still installed and the
  // signal blocked.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(signal);
}

bool would_end(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

}  // namespace

CleanUpOnSignals::CleanUpOnSignals() {
  struct sigaction action {};
  action.sa_handler = clean_up_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER | SA_RESTART;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_[i]);
    if (would_end(previous_[i]))
      ::sigaction(kSignals[i], kSignals[i] == SIGXFSZ ? &ignore : &action, nullptr);
  }
}

CleanUpOnSignals::~CleanUpOnSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    if (would_end(previous_[i])) ::sigaction(kSignals[i], &previous_[i], nullptr);
}

}  // namespace sinter::tools
