#include "tools/compiler/run/npy.h"

#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>
#include <zip.h>

namespace sinter::tools {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 36;
constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;
constexpr std::size_t kHeaderAlignment = 64;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::kUsage, fmt::format("'{}': {}", path, what));
}

std::optional<DType> dtype_of(std::string_view descr) {
  static const std::map<std::string_view, DType> types = {
      {"|b1", DType::kBool},    {"|i1", DType::kInt8},    {"<i2", DType::kInt16},
      {"<i4", DType::kInt32},   {"<i8", DType::kInt64},   {"|u1", DType::kUInt8},
      {"<u2", DType::kUInt16},  {"<u4", DType::kUInt32},  {"<u8", DType::kUInt64},
      {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}};
  const auto found = types.find(descr);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

std::string_view descr_of(DType type) {
  static constexpr std::string_view names[kDTypeCount] = {
      "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<u2", "<f4", "<f8"};
  return names[static_cast<std::size_t>(type)];
}

ir::Tensor parse_npy(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() < kMagicSize + 4 || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0)
    fail(path, "not a NumPy array");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
  const bool long_header = byte(kMagicSize) >= 2;
  const std::size_t start = kMagicSize + (long_header ? 6 : 4);
  if (bytes.size() < start) fail(path, "truncated");
  std::size_t header_size = byte(8) | byte(9) << 8;
  if (long_header) header_size |= byte(10) << 16 | byte(11) << 24;
  if (bytes.size() - start < header_size) fail(path, "truncated");
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + start, header_size);

  std::smatch match;
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']*)'")))
    fail(path, "an array of records is not supported");
  const auto dtype = dtype_of(match[1].str());
  if (!dtype) fail(path, fmt::format("type '{}' is not supported", match[1].str()));
  if (header.find("'fortran_order': False") == std::string::npos)
    fail(path, "Fortran order is not supported; save numpy.ascontiguousarray(x)");
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([^)]*)\\)")))
    fail(path, "no shape in the header");
  std::vector<std::int64_t> shape;
  const std::string dims = match[1].str();
  std::uint64_t count = 1;
  static const std::regex number("[0-9]{1,18}");
  for (auto it = std::sregex_iterator(dims.begin(), dims.end(), number);
       it != std::sregex_iterator(); ++it) {
    shape.push_back(std::stoll(it->str()));
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(shape.back()), &count) ||
        count > kMaxBytes)
      fail(path, fmt::format("the size of shape ({}) overflows", dims));
  }
  const auto data = bytes.subspan(start + header_size);
  if (data.size() != count * size_of(*dtype))
    fail(path, fmt::format("shape ({}) needs {} bytes, the file has {}", dims,
                           count * size_of(*dtype), data.size()));
  return ir::Tensor(*dtype, std::move(shape), ir::Buffer::copy_of(data));
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

}  // namespace

ir::Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail(path, "cannot be opened");
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size < 0 || static_cast<std::uint64_t>(size) > kMaxBytes) fail(path, "not a file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size)) fail(path, "cannot be read");
  return parse_npy(path, bytes);
}

NamedTensors read_npz(const std::string& path) {
  int code = 0;
  std::unique_ptr<zip_t, ArchiveCloser> archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) fail(path, code == ZIP_ER_NOENT ? "cannot be opened" : "not a .npz archive");
  NamedTensors result;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0)
      fail(path, "damaged archive");
    if (stat.size > kMaxBytes) fail(path, fmt::format("'{}' is too large", stat.name));
    std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0), &zip_fclose);
    std::vector<std::byte> bytes(stat.size);
    if (!file ||
        zip_fread(file.get(), bytes.data(), stat.size) != static_cast<zip_int64_t>(stat.size))
      fail(path, fmt::format("'{}' in the archive cannot be read", stat.name));
    std::string name = stat.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    result.emplace_back(name, parse_npy(path + ":" + name, bytes));
  }
  return result;
}

void write_npz(const std::string& path, const NamedTensors& arrays) {
  int code = 0;
  std::unique_ptr<zip_t, ArchiveCloser> archive(
      zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive) fail(path, "cannot be written");
  std::vector<std::vector<std::byte>> contents;
  for (const auto& [name, tensor] : arrays) contents.push_back(npy_bytes(tensor));
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
  archive.release();
}

}  // namespace sinter::tools
