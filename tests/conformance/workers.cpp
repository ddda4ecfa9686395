// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/workers.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sinter/error.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sinter::conformance {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::kInternal, fmt::format("{}: {}", what, std::strerror(errno)));
}

bool read_all(int fd, void* into, std::size_t size) {
  auto* bytes = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* from, std::size_t size) {
  const auto* bytes = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t put = write(fd, bytes, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

/// A child that reads item numbers and writes texts, each preceded by its length.
class Worker {
 public:
  explicit Worker(const std::function<std::string(std::size_t)>& work) {
    int to_child[2], from_child[2];
    if (pipe(to_child) != 0 || pipe(from_child) != 0) fail("pipe");
    pid_ = fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      close(to_child[1]);
      close(from_child[0]);
      serve(to_child[0], from_child[1], work);
    }
    close(to_child[0]);
    close(from_child[1]);
    to_ = to_child[1];
    from_ = from_child[0];
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    close(to_);
    close(from_);
    if (pid_ <= 0) return;
    stop();  // closed pipes do not end it: later children hold copies of them
    waitpid(pid_, nullptr, 0);
  }

  void start(std::size_t item) {
    item_ = item;
    started_ = Clock::now();
    const std::uint64_t number = item;
    write_all(to_, &number, sizeof number);  // a dead child shows when its answer is read
  }
  std::optional<std::size_t> item() const { return item_; }
  int answers() const { return from_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

  /// The answer, or nothing if the child has died.
  std::optional<std::string> finish() {
    std::uint64_t size = 0;
    if (!read_all(from_, &size, sizeof size)) return std::nullopt;
    std::string text(size, '\0');
    if (!read_all(from_, text.data(), size)) return std::nullopt;
    item_.reset();
    return text;
  }
  void stop() { kill(pid_, SIGKILL); }
  /// How the child ended.
  std::string fate() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    if (WIFSIGNALED(status)) return fmt::format("crashed: {}", strsignal(WTERMSIG(status)));
    return fmt::format("the process ended with status {}", WEXITSTATUS(status));
  }

 private:
  [[noreturn]] static void serve(int in, int out,
                                 const std::function<std::string(std::size_t)>& work) {
    std::uint64_t item = 0;
    while (read_all(in, &item, sizeof item)) {
      const std::string text = work(item);
      const std::uint64_t size = text.size();
      if (!write_all(out, &size, sizeof size) || !write_all(out, text.data(), size)) break;
    }
    _exit(0);  // nothing of the parent's is to be flushed or destroyed twice
  }

  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  std::optional<std::size_t> item_;
  Clock::time_point started_;
};

}  // namespace

void spread(const WorkOptions& options, const std::function<std::string(std::size_t)>& work,
            const std::function<void(std::size_t, const std::string&)>& done,
            const std::function<void(std::size_t, const std::string&)>& lost) {
  std::signal(SIGPIPE, SIG_IGN);
  std::size_t next = 0, open = options.items;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < options.jobs && static_cast<std::size_t>(i) < options.items; ++i) {
    workers.push_back(std::make_unique<Worker>(work));
    workers.back()->start(next++);
  }
  while (open > 0) {
    std::vector<pollfd> waits;
    for (const auto& worker : workers)
      waits.push_back({worker->item() ? worker->answers() : -1, POLLIN, 0});
    if (poll(waits.data(), waits.size(), 100) < 0 && errno != EINTR) fail("poll");
    for (std::size_t w = 0; w < workers.size(); ++w) {
      if (!workers[w]->item()) continue;
      const std::size_t item = *workers[w]->item();
      const bool late = waits[w].revents == 0 && workers[w]->seconds() > options.limit_s;
      if (waits[w].revents == 0 && !late) continue;
      if (late) workers[w]->stop();
      if (const auto text = workers[w]->finish(); text && !late) {
        done(item, *text);
      } else {
        const std::string fate = workers[w]->fate();
        lost(item, late ? fmt::format("took longer than {} s", options.limit_s) : fate);
        workers[w] = std::make_unique<Worker>(work);
      }
      --open;
      if (next < options.items) workers[w]->start(next++);
    }
  }
}

}  // namespace sinter::conformance
