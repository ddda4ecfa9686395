// SPDX-License-Identifier: Apache-2.0
// What goes between the processes of a sandbox.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::sandbox {

/// A descriptor that is closed.
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

/// Both ends of a connection whose messages stay whole. Throws Error(kInternal).
void make_connection(Descriptor& one, Descriptor& other);
/// A file in memory. Throws Error(kOutOfMemory).
Descriptor memory_file(std::string_view content);
/// The whole of it; empty if it cannot be read.
std::string content_of(int file);

/// One message with descriptors. False if nobody is there any more.
bool send_message(int connection, std::string_view bytes, std::initializer_list<int> descriptors);
/// False at the end.
bool receive_message(int connection, std::string& bytes, std::vector<Descriptor>& descriptors);

/// All bytes. False if nobody reads.
bool write_all(int descriptor, std::string_view bytes);
/// Until its end, or `deadline_ms` from now, or more than `most` bytes: then false.
bool read_all(int descriptor, std::string& bytes, std::size_t most, int deadline_ms);

}  // namespace sinter::sandbox
