// SPDX-License-Identifier: Apache-2.0
// The wheel asks for no libstdc++ newer than GCC 11's, which distributions with glibc 2.34 have.
// GCC 12 gave std::condition_variable::wait a version of its own (GLIBCXX_3.4.30), the one thing
// that the extension took of it; the one of GCC 4.4 does the same and is in every libstdc++.
// CMakeLists.txt says --wrap.
#include <condition_variable>
#include <mutex>

extern "C" {
#if defined(__GLIBCXX__) && defined(__x86_64__)
void sinter_older_wait(std::condition_variable*, std::unique_lock<std::mutex>&);
__asm__(
    ".symver sinter_older_wait, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>& lock) {
  sinter_older_wait(condition, lock);
}
#endif
}
