// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/model_file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx.pb.h>
#include <sinter/file_error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

// ONNX nests types and graphs; deeper nesting is an attack on the stack.
constexpr int kMaxNesting = 100;

struct FileDescriptor {
  int fd = -1;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void not_a_model(std::string message) {
  throw invalid_model_error(std::move(message));
}

/// Recognizes well-known formats that are not ONNX by their magic bytes.
std::optional<std::string_view> recognise_other_format(std::string_view head) {
  struct Magic {
    std::string_view bytes, what;
  };
  static constexpr Magic kMagics[] = {
      {"PK\x03\x04", "a ZIP archive (PyTorch saves models so: export with torch.onnx.export)"},
      {"\x89HDF", "an HDF5 file (Keras saves models so: convert with tf2onnx)"},
      {"version https://git-lfs", "a Git LFS pointer, not the file itself: run 'git lfs pull'"},
      {"TFL3", "a TensorFlow Lite model"},
      {"GGUF", "a GGUF model"},
      {"\x7f"
       "ELF",
       "an executable"},
      {"\x80\x02", "a Python pickle (PyTorch saves models so: export with torch.onnx.export)"},
      {"\x93NUMPY", "a NumPy array"},
      {"<!DOCTYPE", "an HTML page"},
      {"<html", "an HTML page"},
      {"\x1f\x8b", "a gzip archive: unpack it first"},
  };
  for (const Magic& magic : kMagics)
    if (head.substr(0, magic.bytes.size()) == magic.bytes) return magic.what;
  if (head.size() > 8 && head.substr(4, 4) == "TFL3") return "a TensorFlow Lite model";
  if (!head.empty() && head[0] == '{') return "JSON text";
  return std::nullopt;
}

/// The field numbers of a message, by wire type. (The generated classes use protobuf's lite
/// runtime, which has no descriptors.)
struct OuterFields {
  std::uint64_t varint = 0, fixed64 = 0, by_length = 0, fixed32 = 0;  // bit n: field n
};
constexpr std::uint64_t fields(std::initializer_list<int> numbers) {
  std::uint64_t bits = 0;
  for (const int number : numbers) bits |= std::uint64_t{1} << number;
  return bits;
}
constexpr OuterFields kModelFields = {fields({1, 5}), 0, fields({2, 3, 4, 6, 7, 8, 14, 20, 25, 26}),
                                      0};
constexpr OuterFields kTensorFields = {fields({1, 2, 5, 7, 11, 14}), fields({10}),
                                       fields({1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16}),
                                       fields({4})};

/// Result of scanning the outermost fields of a message, for diagnostics.
struct OuterScan {
  bool cut_short = false;       // a field announces more bytes than the file has
  bool unknown_field = false;   // a field number or wire type unknown to the message
  std::size_t fields = 0;       // complete known fields before that
  std::uint64_t announced = 0;  // end offset of the truncated field
};

OuterScan scan_outer_fields(std::span<const std::byte> bytes, const OuterFields& known) {
  OuterScan scan;
  std::uint64_t at = 0;
  const auto cut = [&](std::uint64_t end) {
    scan.cut_short = true;
    scan.announced = end;
  };
  const auto varint = [&]() -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= bytes.size()) {
        cut(bytes.size() + 1);
        return std::nullopt;
      }
      const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    scan.unknown_field = true;
    return std::nullopt;
  };
  while (at < bytes.size()) {
    const auto tag = varint();
    if (!tag) return scan;
    const std::uint64_t number = *tag >> 3;
    const std::uint64_t bit = number < 64 ? std::uint64_t{1} << number : 0;
    std::uint64_t skip = 0;
    if ((*tag & 7) == 0 && (known.varint & bit) != 0) {
      if (!varint()) return scan;
    } else if ((*tag & 7) == 1 && (known.fixed64 & bit) != 0) {
      skip = 8;
    } else if ((*tag & 7) == 5 && (known.fixed32 & bit) != 0) {
      skip = 4;
    } else if ((*tag & 7) == 2 && (known.by_length & bit) != 0) {
      const auto length = varint();
      if (!length) return scan;
      skip = *length;
    } else {
      scan.unknown_field = true;
      return scan;
    }
    if (skip > bytes.size() - at) {
      cut(skip > UINT64_MAX - at ? UINT64_MAX : at + skip);
      return scan;
    }
    at += skip;
    ++scan.fields;
  }
  return scan;
}

/// Disables protobuf's messages on stderr; Sinter's own error says more.
void quiet_protobuf() {
  static std::once_flag once;
  std::call_once(once, [] { google::protobuf::SetLogHandler(nullptr); });
}

/// A model's bytes as a protobuf stream; releases the memory of the previous block.
class ModelStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit ModelStream(const ModelBytes& model) : model_(model) {}

  bool Next(const void** data, int* size) override {
    constexpr std::size_t kBlock = std::size_t{16} << 20;
    if (model_.file != nullptr) model_.file->forget(model_.bytes.subspan(given_, next_ - given_));
    given_ = next_;
    if (next_ == model_.bytes.size()) return false;
    next_ += std::min(kBlock, model_.bytes.size() - next_);
    *data = model_.bytes.data() + given_;
    *size = static_cast<int>(next_ - given_);
    return true;
  }
  void BackUp(int count) override { next_ -= static_cast<std::size_t>(count); }
  bool Skip(int count) override {
    const auto left = model_.bytes.size() - next_, wanted = static_cast<std::size_t>(count);
    next_ += std::min(left, wanted);
    given_ = next_;
    return wanted <= left;
  }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(next_); }

 private:
  const ModelBytes& model_;
  std::size_t given_ = 0, next_ = 0;  // the last block
};

template <typename Message>
std::shared_ptr<const Message> parse(const ModelBytes& model, const std::string& name,
                                     std::string_view what, const OuterFields& known) {
  const std::span<const std::byte> bytes = model.bytes;
  quiet_protobuf();
  if (bytes.empty()) not_a_model(fmt::format("'{}' is empty: expected {}", name, what));
  if (bytes.size() > INT_MAX)
    not_a_model(fmt::format(
        "'{}' has {} bytes, more than the 2 GiB that a protobuf message can have: save the model "
        "with its weights as external data",
        name, bytes.size()));
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 64));
  const auto other = recognise_other_format(head);
  auto message = std::make_shared<Message>();
  ModelStream blocks(model);
  google::protobuf::io::CodedInputStream stream(&blocks);
  stream.SetRecursionLimit(kMaxNesting);
  const bool parsed = message->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  if (other) not_a_model(fmt::format("'{}' is not {}: it is {}", name, what, *other));
  const OuterScan scan = scan_outer_fields(bytes, known);
  // Many short byte strings parse as some protobuf message: at least one known field is required.
  // Unknown fields after known ones mean a newer ONNX.
  if (parsed && scan.fields > 0) return message;
  if (scan.cut_short && (scan.fields > 0 || bytes.size() < 16))
    not_a_model(fmt::format(
        "'{}' is truncated: it has {} bytes, but its contents announce at least {}; get the file "
        "again",
        name, bytes.size(), scan.announced));
  if (scan.unknown_field && scan.fields < 2)
    not_a_model(
        fmt::format("'{}' is not {}: it does not begin with the fields of one", name, what));
  not_a_model(fmt::format(
      "'{}' is damaged: after {} whole fields its bytes are no longer {} (or it nests deeper than "
      "{} levels); get the file again",
      name, scan.fields, what, kMaxNesting));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not hang.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  const auto refuse = [&](int number, std::string_view why) {
    throw FileError(ErrorCode::kUsage, fmt::format("cannot read '{}': {}", path.string(), why),
                    path.string(), number);
  };
  const auto refuse_as_system = [&] {
    const int number = errno;
    refuse(number, std::strerror(number));
  };
  if (file.fd < 0) refuse_as_system();
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) refuse_as_system();
  if (S_ISDIR(status.st_mode)) refuse(EISDIR, "it is a directory");
  if (S_ISFIFO(status.st_mode)) refuse(0, "it is a pipe, not a regular file");
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
    refuse(0, "it is a device, not a regular file");
  if (!S_ISREG(status.st_mode)) refuse(0, "it is not a regular file");
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->size_ = static_cast<std::size_t>(status.st_size);
  if (mapped->size_ > 0) {
    void* address = ::mmap(nullptr, mapped->size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (address == MAP_FAILED) {
      mapped->size_ = 0;
      refuse_as_system();
    }
    mapped->data_ = static_cast<const std::byte*>(address);
  }
  return mapped;
}

void MappedFile::forget(std::span<const std::byte> part) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t begin = (offset + page - 1) / page * page,
                    end = (offset + part.size()) / page * page;
  // Advice only: ignoring it costs memory.
  if (begin < end) ::madvise(const_cast<std::byte*>(data_ + begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<const onnx::ModelProto> parse_model(const ModelBytes& model,
                                                    const std::string& name) {
  return parse<onnx::ModelProto>(model, name, "an ONNX model", kModelFields);
}

std::shared_ptr<const onnx::TensorProto> parse_tensor(std::span<const std::byte> bytes,
                                                      const std::string& name) {
  return parse<onnx::TensorProto>({bytes, nullptr}, name, "a serialised ONNX tensor",
                                  kTensorFields);
}

}  // namespace sinter::frontend
