// SPDX-License-Identifier: Apache-2.0
// Bytes that a client sends: the server answers or closes, in time, and in the same way however
// they are cut.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/serve/http/server.h"

namespace {

namespace http = sinter::tools::http;

/// `call` again as long as a signal, as libFuzzer's timer, ends it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Echo {
 public:
  Echo() {
    http::Limits limits;
    limits.body_bytes = 4096;
    limits.header_bytes = 2048;
    limits.target_bytes = 256;
    limits.drained_bytes = 1024;
    limits.workers = 2;
    limits.linger_time = std::chrono::milliseconds(200);
    http::Router router;
    router.add("GET", "/quick", http::Work::kQuick, 0,
               [](const http::Request&) { return http::Response{.body = "quick"}; });
    router.add("POST", "/echo", http::Work::kWorker, 0,
               [](const http::Request& request) { return http::Response{.body = request.body}; });
    router.add("GET", "/name/{name}", http::Work::kQuick, 0, [](const http::Request& request) {
      return http::Response{.body = request.parameters[0]};
    });
    http::Hooks hooks;
    hooks.admit = [](const http::Request& request,
                     const http::Route*) -> std::optional<http::Response> {
      if (request.has("x-refuse")) return http::Response{.status = 401};
      return std::nullopt;
    };
    hooks.refuse = [](const http::Request&, int status, std::string_view) {
      return http::Response{.status = status};
    };
    hooks.error = [](const http::Request&, const std::exception_ptr&) {
      return http::Response{.status = 500};
    };
    hooks.finish = [](const http::Request&, http::Response&) {};
    server_ = std::make_unique<http::Server>(limits, std::move(router), std::move(hooks));
    port_ = server_->bind("127.0.0.1", 0).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Echo() {
    server_->abort();
    thread_.join();
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  /// All that comes to these pieces. Ends the process if nothing comes for seconds.
  std::string ask(const std::vector<std::string_view>& pieces) const {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // From an address of its own: of one address all ports would soon be in TIME_WAIT.
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(0x7F010001U + asked_++ % 0xF00000U);
    if (bind(client, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) std::abort();
    const auto* to = reinterpret_cast<sockaddr*>(&address);
    if (uninterrupted([&] { return connect(client, to, sizeof address); }) != 0 && errno != EISCONN)
      std::abort();
    const int yes = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const timeval wait{5, 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    for (const std::string_view piece : pieces) {
      // Refused already, perhaps.
      if (!piece.empty() &&
          uninterrupted([&] { return send(client, piece.data(), piece.size(), MSG_NOSIGNAL); }) < 0)
        break;
      if (pieces.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    shutdown(client, SHUT_WR);
    std::string answer;
    std::array<char, 4096> part{};
    while (true) {
      const auto got = uninterrupted([&] { return recv(client, part.data(), part.size(), 0); });
      if (got < 0 && errno == EAGAIN) {
        std::fputs("no answer and no end within 5 s\n", stderr);
        std::abort();
      }
      if (got < 0) std::fprintf(stderr, "recv: %s\n", std::strerror(errno));
      if (got <= 0) break;
      answer.append(part.data(), static_cast<std::size_t>(got));
    }
    const linger now{1, 0};  // no port waits for late bytes
    setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(client);
    return answer;
  }

 private:
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
  int port_ = 0;
  mutable std::uint32_t asked_ = 0;
};

/// Status codes, and bodies between them, without dates and 100 Continue.
std::string essence(const std::string& answer) {
  std::string result;
  std::string_view rest = answer;
  while (!rest.empty()) {
    const auto end = std::min(rest.find("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    const bool is_noise = line.starts_with("Date: ") || line.starts_with("HTTP/1.1 100");
    if (!is_noise) (result += line) += '\n';
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Echo echo;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string whole = echo.ask({text});
  // Where each second input is cut.
  if (size < 2 || data[size - 1] % 2 == 0) return 0;
  const std::size_t cut = 1 + (data[0] * 256U + data[size / 2]) % (size - 1);
  const std::string parts = echo.ask({text.substr(0, cut), text.substr(cut)});
  const auto first = [](const std::string& answer) { return answer.substr(0, 12); };
  if (first(whole) != first(parts) && !first(whole).starts_with("HTTP/1.1 100") &&
      !first(parts).starts_with("HTTP/1.1 100")) {
    std::fprintf(stderr, "cut at %zu:\n%s---\n%s", cut, essence(whole).c_str(),
                 essence(parts).c_str());
    std::abort();
  }
  return 0;
}
