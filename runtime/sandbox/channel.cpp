// SPDX-License-Identifier: Apache-2.0
#include "runtime/sandbox/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/format_error.h"

namespace sinter::sandbox {
namespace {

constexpr std::size_t kMostMessage = 4096, kMostDescriptors = 2;

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = other.release();
  }
  return *this;
}

int Descriptor::release() {
  const int number = number_;
  number_ = -1;
  return number;
}

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

void make_connection(Descriptor& one, Descriptor& other) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw internal_error("no socket: {}", std::strerror(errno));
  one = Descriptor(ends[0]);
  other = Descriptor(ends[1]);
}

Descriptor memory_file(std::string_view content) {
  Descriptor file(memfd_create("sinter", MFD_CLOEXEC));
  if (file.get() < 0 || !write_all(file.get(), content))
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("no file in memory: {}", std::strerror(errno)));
  return file;
}

std::string content_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return "";
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t at = 0;
  while (at < content.size()) {
    const auto count =
        pread(file, content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    at += static_cast<std::size_t>(count);
  }
  return content;
}

bool send_message(int connection, std::string_view bytes, std::initializer_list<int> descriptors) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (const std::size_t payload = sizeof(int) * descriptors.size(); payload > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(payload);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(payload);
    std::memcpy(CMSG_DATA(header), std::data(descriptors), payload);
  }
  while (true) {
    if (sendmsg(connection, &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

bool receive_message(int connection, std::string& bytes, std::vector<Descriptor>& descriptors) {
  bytes.resize(kMostMessage);
  descriptors.clear();
  iovec part = {bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t count = 0;
  do count = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  bytes.resize(static_cast<std::size_t>(count));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t found = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < found; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
  return true;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool read_all(int descriptor, std::string& bytes, std::size_t most, int deadline_ms) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(deadline_ms);
  bytes.clear();
  std::array<char, 1 << 16> part;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd waits = {descriptor, POLLIN, 0};
    const int ready = poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const auto count = ::read(descriptor, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) return true;
    if (bytes.size() + static_cast<std::size_t>(count) > most) return false;
    bytes.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace sinter::sandbox
