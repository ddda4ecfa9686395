// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/run/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/ranges.h>
#include <zip.h>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 36;
constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kMaxHeader = 10'000;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw usage_error("'{}': {}", path, what);
}

std::optional<DType> dtype_of(std::string_view descr) {
  static const std::map<std::string_view, DType> types = {
      {"|b1", DType::kBool},    {"|i1", DType::kInt8},     {"<i2", DType::kInt16},
      {"<i4", DType::kInt32},   {"<i8", DType::kInt64},    {"|u1", DType::kUInt8},
      {"<u2", DType::kUInt16},  {"<u4", DType::kUInt32},   {"<u8", DType::kUInt64},
      {"<f2", DType::kFloat16}, {"<V2", DType::kBFloat16}, {"<f4", DType::kFloat32},
      {"<f8", DType::kFloat64}};
  const auto found = types.find(descr);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

std::string_view descr_of(DType type) {
  static constexpr std::string_view names[kDTypeCount] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1",
                                                          "<u2", "<u4", "<u8", "<f2", "<u2", "<f4",
                                                          "<f8", "|u1", "|u1", "|u1", "|u1"};
  return names[static_cast<std::size_t>(type)];
}

struct ArrayHeader {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  bool column_major = false;
  std::uint64_t data_bytes = 0;
  std::size_t text_width = 0;  // characters of a string; 0: numbers
  bool is_unicode = false;     // of 4 bytes each
};

/// Parses the header: a Python dict of 'descr', 'fortran_order' and 'shape', in any order.
class HeaderText {
 public:
  HeaderText(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  ArrayHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr")
        type();
      else if (key == "fortran_order")
        order();
      else if (key == "shape")
        shape();
      else
        fail(path_, "its header has a key that is none of NumPy's");
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip();
    if (at_ != text_.size()) malformed();
    if (!has_type_ || !has_order_ || !has_shape_)
      fail(path_, "its header lacks 'descr', 'fortran_order' or 'shape'");
    std::uint64_t count = 1;
    for (const std::int64_t dim : header_.shape)
      if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(dim), &count) ||
          count > kMaxBytes)
        fail(path_,
             fmt::format("the size of shape ({}) overflows", fmt::join(header_.shape, ", ")));
    const std::size_t element = header_.text_width == 0
                                    ? size_of(header_.dtype)
                                    : header_.text_width * (header_.is_unicode ? 4 : 1);
    if (__builtin_mul_overflow(count, element, &header_.data_bytes) ||
        header_.data_bytes > kMaxBytes * sizeof(double))
      fail(path_, fmt::format("the size of shape ({}) overflows", fmt::join(header_.shape, ", ")));
    return std::move(header_);
  }

 private:
  [[noreturn]] void malformed() const {
    fail(path_, fmt::format("its header is malformed at character {}", at_));
  }
  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }
  bool accept_word(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  /// None of the known headers contains escapes.
  std::string_view string() {
    skip();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) malformed();
    const std::size_t start = at_ + 1, end = text_.find(text_[at_], start);
    if (end == text_.npos) malformed();
    at_ = end + 1;
    return text_.substr(start, end - start);
  }
  void type() {
    skip();
    if (at_ < text_.size() && text_[at_] == '[')
      fail(path_, "an array of records is not supported");
    const std::string_view descr = string();
    const auto dtype = dtype_of(descr);
    header_.text_width = 0;
    if (!dtype && read_text_type(descr)) {
      has_type_ = true;
      return;
    }
    if (!dtype) fail(path_, fmt::format("type '{}' is not supported", descr));
    header_.dtype = *dtype;
    has_type_ = true;
  }
  /// "<U12", "|S12": strings of 12 characters.
  bool read_text_type(std::string_view descr) {
    if (!descr.starts_with("<U") && !descr.starts_with("|S")) return false;
    constexpr std::size_t kMostCharacters = std::size_t{1} << 24;
    std::size_t width = 0;
    const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), width);
    if (error != std::errc() || end != descr.data() + descr.size() || width > kMostCharacters)
      return false;
    // NumPy writes width 0 for an array of empty strings alone.
    header_.text_width = std::max<std::size_t>(width, 1);
    header_.is_unicode = descr[1] == 'U';
    if (width == 0) fail(path_, "its strings are all empty, which NumPy stores as nothing");
    return true;
  }
  void order() {
    header_.column_major = accept_word("True");
    if (!header_.column_major && !accept_word("False")) malformed();
    has_order_ = true;
  }
  void shape() {
    header_.shape.clear();
    expect('(');
    while (!accept(')')) {
      skip();
      std::int64_t dim = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error == std::errc::result_out_of_range) fail(path_, "the size of its shape overflows");
      if (error != std::errc() || dim < 0) malformed();
      at_ = static_cast<std::size_t>(end - text_.data());
      accept('L');  // of Python 2's integers
      header_.shape.push_back(dim);
      if (accept(',')) continue;
      expect(')');
      break;
    }
    has_shape_ = true;
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t at_ = 0;
  ArrayHeader header_;
  bool has_type_ = false, has_order_ = false, has_shape_ = false;
};

/// Converts column-major `data` to row-major: NumPy stores Fortran-contiguous arrays column-major.
std::vector<std::byte> row_major(const std::vector<std::byte>& data,
                                 const std::vector<std::int64_t>& shape, std::size_t size) {
  std::vector<std::byte> result(data.size());
  std::vector<std::size_t> strides(shape.size());
  std::size_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    strides[d] = count;
    count *= static_cast<std::size_t>(shape[d]);
  }
  std::vector<std::int64_t> index(shape.size());
  std::size_t from = 0;
  for (std::size_t to = 0; to < count; ++to) {
    std::memcpy(result.data() + to * size, data.data() + from * size, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return result;
}

/// Appends a character as UTF-8; what is none, as U+FFFD.
void append_utf8(std::string& text, std::uint32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  put(kFirst[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) put(0x80 | (c >> (6 * i) & 0x3f));
}

/// The integers for an array's strings; these end with zeros.
std::vector<std::byte> coded(const std::vector<std::byte>& data, const ArrayHeader& header,
                             const TextTarget& target) {
  const std::size_t each = header.is_unicode ? 4 : 1, width = header.text_width * each;
  std::vector<std::int64_t> codes;
  codes.reserve(data.size() / width);
  std::string text;
  for (std::size_t at = 0; at + width <= data.size(); at += width) {
    text.clear();
    std::size_t length = width;
    const auto is_zero = [&](std::size_t end) {
      return std::all_of(&data[at + end - each], &data[at + end - each] + each,
                         [](std::byte byte) { return byte == std::byte{0}; });
    };
    while (length > 0 && is_zero(length)) length -= each;
    for (std::size_t i = 0; i < length; i += each)
      if (header.is_unicode) {
        std::uint32_t c = 0;
        std::memcpy(&c, &data[at + i], 4);
        append_utf8(text, c);
      } else {
        text += static_cast<char>(data[at + i]);
      }
    codes.push_back(target.code(text));
  }
  const ir::Tensor tensor =
      ir::Tensor::from_ints(target.dtype, {static_cast<std::int64_t>(codes.size())}, codes);
  return {tensor.bytes().begin(), tensor.bytes().end()};
}

/// Reads the next bytes; fewer at the end.
using ReadBytes = std::function<std::size_t(std::span<std::byte> bytes)>;

/// Reads an array of `size` bytes, header included. Allocates only after the header has passed all
/// checks and `check`.
ir::Tensor read_array(const std::string& path, std::uint64_t size, const ReadBytes& read,
                      const std::string& name, const ArrayCheck& check, const TextTargets& texts) {
  std::array<std::byte, kMagicSize + 6> start;
  const std::size_t shortest = kMagicSize + 4;
  const auto read_all = [&](std::span<std::byte> bytes) {
    if (read(bytes) != bytes.size()) fail(path, "truncated");
  };
  if (read(std::span(start).first(shortest)) != shortest ||
      std::memcmp(start.data(), kMagic, kMagicSize) != 0)
    fail(path, "not a NumPy array");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(start[i]); };
  const std::size_t version = byte(kMagicSize);
  if (version < 1 || version > 3) fail(path, fmt::format("NumPy format {} is not known", version));
  std::size_t data_at = shortest, header_size = byte(8) | byte(9) << 8;
  if (version >= 2) {
    read_all(std::span(start).last(2));
    data_at += 2;
    header_size |= byte(10) << 16 | byte(11) << 24;
  }
  if (header_size > kMaxHeader)
    fail(path, fmt::format("its header has {} bytes, more than the {} that NumPy reads",
                           header_size, kMaxHeader));
  std::string text(header_size, '\0');
  read_all(std::as_writable_bytes(std::span(text)));
  data_at += header_size;

  ArrayHeader header = HeaderText(path, text).parse();
  if (size - data_at != header.data_bytes)
    fail(path, fmt::format("shape ({}) needs {} bytes, the file has {}",
                           fmt::join(header.shape, ", "), header.data_bytes, size - data_at));
  std::optional<TextTarget> target;
  if (header.text_width > 0) {
    if (texts) target = texts(name);
    if (!target) fail(path, "it holds strings, and is for an input of numbers");
    header.dtype = target->dtype;
  }
  if (check) check(name, header.dtype, header.shape);
  std::vector<std::byte> data(static_cast<std::size_t>(header.data_bytes));
  read_all(data);
  // Reading to the end makes the library verify an archive's checksum.
  std::byte more;
  if (read({&more, 1}) != 0) fail(path, "there is more than its shape needs");
  if (target) data = coded(data, header, *target);
  if (header.column_major) data = row_major(data, header.shape, size_of(header.dtype));
  return ir::Tensor(header.dtype, std::move(header.shape), ir::Buffer::take(std::move(data)));
}

std::vector<std::byte> npy_bytes(const ir::Tensor& tensor) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr_of(tensor.dtype()), fmt::join(tensor.shape(), ", "),
                                   tensor.shape().size() == 1 ? "," : "");
  const std::size_t prefix = kMagicSize + 4;
  while ((prefix + header.size() + 1) % kHeaderAlignment != 0) header += ' ';
  header += '\n';
  std::string file(kMagic, kMagicSize);
  file += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  file += header;
  std::vector<std::byte> bytes(file.size() + tensor.bytes().size());
  std::memcpy(bytes.data(), file.data(), file.size());
  if (!tensor.bytes().empty())
    std::memcpy(bytes.data() + file.size(), tensor.bytes().data(), tensor.bytes().size());
  return bytes;
}

struct ArchiveCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, ArchiveCloser>;

files::InputFile open_array_file(const std::string& path) {
  files::InputFile file = files::open_input(path);
  if (!file.problem.empty())
    throw file.error(path, fmt::format("'{}': cannot be opened: {}", path, file.problem));
  return file;
}

/// The archive takes ownership of the descriptor.
Archive open_archive(const std::string& path, files::Descriptor file) {
  int code = 0;
  Archive archive(zip_fdopen(file.get(), 0, &code));
  if (!archive) fail(path, "not a .npz archive");
  (void)file.release();
  return archive;
}

/// The archive's members, if their sizes are plausible: the archive states the decompressed sizes,
/// for which memory is allocated.
std::vector<zip_stat_t> list_members(const std::string& path, zip_t* archive,
                                     std::uint64_t file_size) {
  // Deflate expands a byte to at most 1,032 bytes.
  constexpr std::uint64_t kMostExpansion = 1040, kSlack = 1024;
  std::vector<zip_stat_t> members;
  std::uint64_t packed = 0;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    constexpr zip_uint64_t kNeeded =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &stat) != 0 ||
        (stat.valid & kNeeded) != kNeeded)
      fail(path, "damaged archive");
    if (stat.size > kMaxBytes) fail(path, fmt::format("'{}' is too large", stat.name));
    if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
      fail(path, fmt::format("'{}' is compressed in a way that NumPy does not write", stat.name));
    // Overlapping members (a zip bomb) would add up to more than the file.
    if (__builtin_add_overflow(packed, stat.comp_size, &packed) || packed > file_size ||
        stat.size / kMostExpansion > stat.comp_size + kSlack)
      fail(path, fmt::format("damaged archive: its {} bytes cannot hold '{}' of {} bytes",
                             file_size, stat.name, stat.size));
    members.push_back(stat);
  }
  return members;
}

}  // namespace

ir::Tensor read_npy(const std::string& path, const std::string& name, const ArrayCheck& check,
                    const TextTargets& texts) {
  const files::InputFile file = open_array_file(path);
  const auto read = [&](std::span<std::byte> bytes) {
    return files::read_some(file.descriptor, bytes, path);
  };
  return read_array(path, file.size(), read, name, check, texts);
}

NamedTensors read_npz(const std::string& path, const ArrayCheck& check, const TextTargets& texts) {
  files::InputFile input = open_array_file(path);
  const Archive archive = open_archive(path, std::move(input.descriptor));
  NamedTensors result;
  for (const zip_stat_t& stat : list_members(path, archive.get(), input.size())) {
    std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), stat.index, 0), &zip_fclose);
    if (!file) fail(path, fmt::format("'{}' in the archive cannot be read", stat.name));
    const auto read = [&](std::span<std::byte> bytes) {
      const zip_int64_t count = zip_fread(file.get(), bytes.data(), bytes.size());
      if (count < 0) fail(path, fmt::format("'{}' in the archive cannot be read", stat.name));
      return static_cast<std::size_t>(count);
    };
    std::string name = stat.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    result.emplace_back(name, read_array(path + ":" + name, stat.size, read, name, check, texts));
  }
  return result;
}

void write_npz(const std::string& path, const NamedTensors& arrays) {
  files::OutputFile file(path);
  std::vector<std::vector<std::byte>> contents;
  for (const auto& [name, tensor] : arrays) contents.push_back(npy_bytes(tensor));
  // Builds the archive in memory: the library would write the file in a way of its own.
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* bytes = zip_source_buffer_create(nullptr, 0, 0, &error);
  Archive archive(
      bytes == nullptr ? nullptr : zip_open_from_source(bytes, ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) {
    if (bytes != nullptr) zip_source_free(bytes);
    fail(path, "cannot be written");
  }
  zip_source_keep(bytes);
  const std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> owner(bytes, &zip_source_free);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    zip_source_t* source =
        zip_source_buffer(archive.get(), contents[i].data(), contents[i].size(), 0);
    const auto index = source == nullptr
                           ? -1
                           : zip_file_add(archive.get(), (arrays[i].first + ".npy").c_str(), source,
                                          ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      if (source != nullptr) zip_source_free(source);
      fail(path, "cannot be written");
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0)
    fail(path, fmt::format("cannot be written: {}", zip_strerror(archive.get())));
  (void)archive.release();
  if (zip_source_open(bytes) != 0) fail(path, "cannot be written");
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (;;) {
    const zip_int64_t count = zip_source_read(bytes, block.data(), block.size());
    if (count < 0) fail(path, "cannot be written");
    if (count == 0) break;
    file.write(std::span(block).first(static_cast<std::size_t>(count)));
  }
  zip_source_close(bytes);
  file.commit();
}

}  // namespace sinter::tools
