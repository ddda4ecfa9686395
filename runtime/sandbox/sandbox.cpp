// SPDX-License-Identifier: Apache-2.0
#include "runtime/sandbox/sandbox.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/format_error.h"
#include "runtime/sandbox/channel.h"

// Sanitizers slow everything down and use more memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SINTER_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SINTER_IS_SANITIZED 1
#endif
#endif
#ifndef SINTER_IS_SANITIZED
#define SINTER_IS_SANITIZED 0
#endif

namespace sinter::sandbox {
namespace {

constexpr int kConnection = 3;  // descriptor number in a process that serves calls
constexpr int kMemory = SINTER_IS_SANITIZED ? RLIMIT_DATA : RLIMIT_AS;
constexpr double kSlower = SINTER_IS_SANITIZED ? 2 : 1;
// Wall-clock seconds allowed for each CPU second, since other processes compete for cores.
constexpr double kPatience = 6;

/// A request to the first process: start a Worker.
struct Order {
  const Task* task;
  Limits limits;
};

void limit(int resource, rlim_t most) {
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource>(resource), &now);
  now.rlim_cur = now.rlim_max == RLIM_INFINITY ? most : std::min(most, now.rlim_max);
  setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

/// Usage of `resource`: all mapped memory, or writable memory.
std::size_t bytes_in_use(int resource) {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long all = 0, data = 0;
  if (file != nullptr) {
    if (std::fscanf(file, "%lu %*u %*u %*u %*u %lu", &all, &data) != 2) all = data = 0;
    std::fclose(file);
  }
  return (resource == RLIMIT_AS ? all : data) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void set_timer(__itimer_which timer, double seconds) {
  itimerval value{};
  value.it_value.tv_sec = static_cast<time_t>(seconds);
  value.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6) + 1;
  setitimer(timer, &value, nullptr);
}

/// Limits this process; the kernel ends it beyond them.
void apply(double seconds_of_core, std::size_t bytes) {
  limit(RLIMIT_CORE, 0);
  limit(kMemory, bytes_in_use(kMemory) + (SINTER_IS_SANITIZED ? 4 : 1) * bytes);
  set_timer(ITIMER_PROF, seconds_of_core * kSlower);  // SIGPROF ends the process
  set_timer(ITIMER_REAL, seconds_of_core * kSlower * kPatience);
}

void lift_limits() {
  limit(kMemory, RLIM_INFINITY);
  const itimerval none{};
  setitimer(ITIMER_PROF, &none, nullptr);
  setitimer(ITIMER_REAL, &none, nullptr);
}

/// The call's result or exception as bytes: a letter, the error code, the text.
std::string outcome_of(const std::function<std::string()>& call) {
  const auto failed = [](ErrorCode code, std::string_view what) {
    return fmt::format("e{:c}{}", static_cast<char>('0' + static_cast<int>(code)), what);
  };
  try {
    return "+" + call();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::kUsage, "it does not fit into the memory that it may take");
  } catch (const std::exception& error) {
    return failed(ErrorCode::kUsage, error.what());
  }
}

std::string result_of(std::string outcome) {
  if (outcome.starts_with('+')) return outcome.erase(0, 1);
  throw Error(static_cast<ErrorCode>(outcome[1] - '0'), outcome.substr(2));
}

/// First actions of a forked process: keeps one descriptor, resets signal handlers, and ignores the
/// signals that end the program. It ends when the program closes the connection.
void settle(int connection, const char* name) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2})
    std::signal(signal, SIG_IGN);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGPROF, SIGALRM})
    std::signal(signal, SIG_DFL);
  std::signal(SIGCHLD, SIG_IGN);  // reaps ended children automatically
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_NAME, name);
  prctl(PR_SET_DUMPABLE, 0);
  const int null = ::open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard)
    if (null >= 0 && !(SINTER_IS_SANITIZED && standard == 2)) dup2(null, standard);
  dup2(connection, kConnection);
  close_range(kConnection + 1, ~0U, 0);
}

/// Reports the signal that ends a call as an outcome: 's' and its number. Also lowers the priority
/// of long calls, so that short ones do not wait for them. State of this process alone.
class SaysSignals {
 public:
  SaysSignals(int answer, double seconds) {
    if (SINTER_IS_SANITIZED) return;  // sanitizers install their own handlers
    descriptor = answer;
    left = seconds > kShort ? seconds - kFirst : 0;
    if (left > 0) set_timer(ITIMER_PROF, kFirst);
    stack_t other{};
    other.ss_sp = stack.data();
    other.ss_size = stack.size();
    sigaltstack(&other, nullptr);  // the call may have exhausted its own stack
    struct sigaction action {};
    action.sa_flags = SA_ONSTACK;
    action.sa_handler = [](int signal) {
      if (signal == SIGPROF && left > 0) {
        setpriority(PRIO_PROCESS, 0, kLater);
        set_timer(ITIMER_PROF, left);
        left = 0;
        return;
      }
      const std::array<char, 2> said = {'s', static_cast<char>(signal)};
      const auto written = ::write(descriptor, said.data(), said.size());
      _exit(written == 2 ? 0 : 1);
    };
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGPROF, SIGALRM})
      sigaction(signal, &action, nullptr);
  }

 private:
  static constexpr double kFirst = 0.05;  // CPU seconds
  static constexpr double kShort = 1;     // calls with a shorter limit keep their priority
  static constexpr int kLater = 5;        // nice value: a third of the share of others
  static inline int descriptor = -1;
  static inline double left = 0;
  alignas(16) static inline std::array<char, std::size_t{64} << 10> stack{};
};

/// Runs one call in its own process.
[[noreturn]] void run_call(const Order& order, void* prepared, int input, int answer) {
  apply(order.limits.seconds, order.limits.bytes);
  const SaysSignals says(answer, order.limits.seconds);
  std::string outcome = outcome_of([&] { return order.task->run(prepared, content_of(input)); });
  if (outcome.size() > order.limits.answer_bytes + 1)
    outcome = "e" + std::string(1, static_cast<char>('0' + static_cast<int>(ErrorCode::kUsage))) +
              "what comes of it is too large";
  lift_limits();
  write_all(answer, outcome);
  _exit(0);
}

/// Prepares, reports it, and forks for each call until the program closes the connection.
[[noreturn]] void serve_calls(const Order& order, const std::string& input) {
  std::shared_ptr<void> prepared;
  apply(order.limits.prepare_seconds, order.limits.bytes);
  const std::string outcome = outcome_of([&] {
    prepared = order.task->prepare(input);
    return std::string();
  });
  lift_limits();
  if (!send_message(kConnection, outcome.substr(0, 2000), {}) || !outcome.starts_with('+'))
    _exit(0);
  std::string bytes;
  std::vector<Descriptor> files;
  while (receive_message(kConnection, bytes, files)) {
    if (files.size() != 2) continue;
    if (fork() == 0) {
      ::close(kConnection);
      run_call(order, prepared.get(), files[0].get(), files[1].get());
    }
    files.clear();
  }
  _exit(0);
}

/// The first process: starts one Worker for each message. It ends with the program, and its Workers
/// end with it.
[[noreturn]] void serve_orders() {
  std::signal(SIGCHLD, SIG_DFL);  // it waits for its own children
  std::string bytes;
  std::vector<Descriptor> files;
  std::vector<pid_t> workers;
  while (receive_message(kConnection, bytes, files)) {
    Order order{};
    if (files.size() != 2 || bytes.size() != sizeof order) continue;
    std::memcpy(&order, bytes.data(), sizeof order);
    const pid_t worker = fork();
    if (worker == 0) {
      const std::string input = content_of(files[0].get());
      settle(files[1].release(), "sinter-worker");
      serve_calls(order, input);
    }
    if (worker > 0) workers.push_back(worker);
    files.clear();
    std::erase_if(workers, [](pid_t each) { return waitpid(each, nullptr, WNOHANG) == each; });
  }
  for (const pid_t worker : workers) kill(worker, SIGKILL);
  for (const pid_t worker : workers) waitpid(worker, nullptr, 0);
  _exit(0);
}

/// The program's end of the connection to the first process; -1 before start().
std::atomic<int> first_process = -1;

/// Ends the first process with the program and waits for it. Not in processes that the program
/// forked, which inherit the connection.
struct EndsFirstProcess {
  explicit EndsFirstProcess(pid_t id) : process(id) {}
  EndsFirstProcess(const EndsFirstProcess&) = delete;
  EndsFirstProcess& operator=(const EndsFirstProcess&) = delete;
  ~EndsFirstProcess() {
    if (getpid() != program) return;
    const int connection = first_process.exchange(-1);
    shutdown(connection, SHUT_RDWR);
    ::close(connection);
    waitpid(process, nullptr, 0);
  }
  pid_t process, program = getpid();
};

}  // namespace

void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    Descriptor ours, theirs;
    make_connection(ours, theirs);
    const pid_t child = fork();
    if (child < 0) throw internal_error("no process for a sandbox: {}", std::strerror(errno));
    if (child == 0) {
      settle(theirs.release(), "sinter-sandbox");
      serve_orders();
    }
    first_process = ours.release();
    static const EndsFirstProcess ends(child);
  });
}

bool is_started() { return first_process >= 0; }

struct Worker::Impl {
  const Task& task;
  std::string input;
  Limits limits;

  std::mutex mutex;  // guards the members below
  std::condition_variable turn;
  std::shared_ptr<Descriptor> connection;
  std::uint64_t next_ticket = 0, served = 0;  // tickets up to `served` may run
  int running = 0;

  /// `signal`: the signal that ended the call; 0 if unknown.
  [[noreturn]] void refuse(const char* what, double seconds, int signal) const {
    const std::string time = fmt::format("that takes more than {} s", seconds);
    const std::string why = signal == SIGPROF || signal == SIGALRM ? time
                            : signal == SIGFPE ? "it divides by zero, or by -1 what has no negative"
                            : signal == SIGSEGV || signal == SIGBUS
                                ? "it is nested too deep"
                                : fmt::format("{} or {} MB, or fails", time, limits.bytes >> 20);
    throw usage_error("{} cannot be {}: {}", task.name, what, why);
  }

  std::shared_ptr<Descriptor> connect() {
    Descriptor ours, theirs;
    make_connection(ours, theirs);
    const Order order{&task, limits};
    const Descriptor file = memory_file(input);
    const std::string_view bytes(reinterpret_cast<const char*>(&order), sizeof order);
    if (!send_message(first_process, bytes, {file.get(), theirs.get()}))
      throw internal_error("the process of the sandbox has ended");
    theirs.close();
    std::string outcome;
    std::vector<Descriptor> none;
    if (!receive_message(ours.get(), outcome, none)) refuse("read", limits.prepare_seconds, 0);
    result_of(std::move(outcome));
    return std::make_shared<Descriptor>(std::move(ours));
  }

  void enter() {
    std::unique_lock lock(mutex);
    if (next_ticket - served >= static_cast<std::uint64_t>(limits.waiting))
      throw Error(ErrorCode::kOutOfMemory,
                  fmt::format("{} cannot be had now: {} others wait", task.name, limits.waiting));
    const std::uint64_t ticket = next_ticket++;
    turn.wait(lock, [&] { return ticket == served && running < limits.at_once; });
    ++served;
    ++running;
    turn.notify_all();
  }
  void leave() {
    const std::scoped_lock lock(mutex);
    --running;
    turn.notify_all();
  }
};

Worker::Worker(const Task& task, std::string_view input, const Limits& limits)
    : impl_(new Impl{.task = task,
                     .input = std::string(input),
                     .limits = limits,
                     .mutex = {},
                     .turn = {},
                     .connection = nullptr}) {
  if (!is_started()) throw internal_error("sandbox::start() comes before a Worker");
  impl_->connection = impl_->connect();
}
Worker::~Worker() = default;

std::string Worker::run(std::string_view input) const {
  Impl& impl = *impl_;
  impl.enter();
  struct Leave {
    Impl& impl;
    explicit Leave(Impl& of) : impl(of) {}
    Leave(const Leave&) = delete;
    Leave& operator=(const Leave&) = delete;
    ~Leave() { impl.leave(); }
  };
  const Leave leave(impl);
  const Descriptor file = memory_file(input);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(ErrorCode::kOutOfMemory, fmt::format("no pipe: {}", std::strerror(errno)));
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  {
    // Restarts a worker that was ended, for example by the OOM killer.
    const std::scoped_lock lock(impl.mutex);
    if (!send_message(impl.connection->get(), "r", {file.get(), to.get()})) {
      impl.connection = impl.connect();
      if (!send_message(impl.connection->get(), "r", {file.get(), to.get()}))
        throw internal_error("the process of {} has ended", impl.task.name);
    }
  }
  to.close();
  std::string outcome;
  const double patience = impl.limits.seconds * kSlower * kPatience * 1000 + 1000;
  const bool is_whole =
      read_all(from.get(), outcome, impl.limits.answer_bytes + 4096, static_cast<int>(patience));
  const bool is_said = is_whole && !outcome.empty() && (outcome[0] == '+' || outcome.size() > 1);
  if (!is_said || outcome[0] == 's')
    impl.refuse(impl.task.verb, impl.limits.seconds, is_said ? outcome[1] : 0);
  return result_of(std::move(outcome));
}

}  // namespace sinter::sandbox
