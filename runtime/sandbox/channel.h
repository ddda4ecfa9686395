// SPDX-License-Identifier: Apache-2.0
// Messages between the processes of a sandbox.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::sandbox {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  int release();
  void close();

 private:
  int number_;
};

/// Connects both ends with a socket that keeps message boundaries. Throws Error(kInternal).
void make_connection(Descriptor& one, Descriptor& other);
/// A file in memory (memfd). Throws Error(kOutOfMemory).
Descriptor memory_file(std::string_view content);
/// The whole content of the file; empty if it cannot be read.
std::string content_of(int file);

/// Sends one message with descriptors. False if the peer has closed.
bool send_message(int connection, std::string_view bytes, std::initializer_list<int> descriptors);
/// Receives one message with descriptors. False if the peer has closed.
bool receive_message(int connection, std::string& bytes, std::vector<Descriptor>& descriptors);

/// Writes all bytes. False if the reader has closed.
bool write_all(int descriptor, std::string_view bytes);
/// Reads to the end of the stream. False after `deadline_ms`, or after more than `most` bytes.
bool read_all(int descriptor, std::string& bytes, std::size_t most, int deadline_ms);

}  // namespace sinter::sandbox
