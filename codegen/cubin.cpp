// SPDX-License-Identifier: Apache-2.0
#include "codegen/cubin.h"

#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
// From CUDA 12.8 the ABI version is 8, and other bits of the flags hold the architecture.
constexpr unsigned char kNewAbi = 8;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kUsage, fmt::format("it is no cubin: {}", what));
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Cubin read() const {
    if (bytes_.size() < sizeof(Elf64_Ehdr) ||
        std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0)  // NOLINT: the magic is not a string
      refuse(
          "it does not begin as an ELF file does; ptxas makes cubins of PTX, and Triton's are "
          "`compiled.asm[\"cubin\"]`");
    const auto header = at<Elf64_Ehdr>(0);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != kMachineCuda)
      refuse(fmt::format("it is an ELF file for machine {}, and GPUs of NVIDIA's are {}",
                         header.e_machine, kMachineCuda));
    Cubin cubin;
    cubin.architecture = static_cast<int>(
        (header.e_ident[EI_ABIVERSION] >= kNewAbi ? header.e_flags >> 8 : header.e_flags) & 0xff);
    if (header.e_shentsize != sizeof(Elf64_Shdr)) refuse("its sections have another size");
    const auto section = [&](std::size_t i) {
      return at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    };
    if (header.e_shstrndx >= header.e_shnum) refuse("its sections have no names");
    // A driver loads the segments.
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      check_range(segment.p_offset, segment.p_filesz);
    }
    const std::span<const std::byte> names = contents(section(header.e_shstrndx));
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr one = section(i);
      const std::string_view name = text(names, one.sh_name);
      constexpr std::string_view kText = ".text.", kInfo = ".nv.info.";
      if (name.starts_with(kText)) cubin.kernels[std::string(name.substr(kText.size()))];
      if (name.starts_with(kInfo))
        cubin.kernels[std::string(name.substr(kInfo.size()))] = parameters(contents(one));
    }
    return cubin;
  }

 private:
  void check_range(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size)
      refuse("it is shorter than it says, or damaged");
  }
  template <typename T>
  T at(std::uint64_t offset) const {
    check_range(offset, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::span<const std::byte> contents(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return {};
    check_range(section.sh_offset, section.sh_size);
    return bytes_.subspan(section.sh_offset, section.sh_size);
  }
  static std::string_view text(std::span<const std::byte> names, std::size_t at) {
    if (at >= names.size()) return {};
    const auto* begin = reinterpret_cast<const char*>(names.data()) + at;
    return {begin, strnlen(begin, names.size() - at)};
  }
  /// Offsets of the parameters that a kernel's attribute section describes (EIATTR_KPARAM_INFO):
  /// index, ordinal and offset in eight bytes, then the size in the upper bits of four.
  static std::vector<std::size_t> parameters(std::span<const std::byte> info) {
    constexpr std::uint8_t kSized = 4, kParameter = 0x17;
    constexpr std::size_t kHead = 4, kBytes = 12, kMost = 4096;
    std::map<std::size_t, std::size_t> found;
    for (std::size_t at = 0; at + kHead <= info.size();) {
      const auto format = static_cast<std::uint8_t>(info[at]),
                 attribute = static_cast<std::uint8_t>(info[at + 1]);
      std::uint16_t size = 0;
      if (format == kSized) std::memcpy(&size, info.data() + at + 2, sizeof size);
      at += kHead;
      if (at + size > info.size()) refuse("its description of parameters is damaged");
      if (format == kSized && attribute == kParameter && size >= kBytes) {
        std::uint16_t ordinal = 0;
        std::uint32_t word = 0;
        std::memcpy(&ordinal, info.data() + at + 4, sizeof ordinal);
        std::memcpy(&word, info.data() + at + 8, sizeof word);
        found[ordinal] = word >> 18;
      }
      at += size;
    }
    if (found.size() > kMost) refuse("its description of parameters is damaged");
    std::vector<std::size_t> sizes;
    for (const auto& [ordinal, size] : found) {
      if (ordinal != sizes.size()) refuse("its description of parameters is damaged");
      sizes.push_back(size);
    }
    return sizes;
  }

  std::span<const std::byte> bytes_;
};

/// 90 for "sm_90" and "sm_90a"; 0 for other texts.
int number_of(const std::string& architecture) {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;
  if (architecture.starts_with(kPrefix))
    std::from_chars(architecture.data() + kPrefix.size(), architecture.data() + architecture.size(),
                    number);
  return number;
}

/// The last digit is the minor version: code for sm_86 runs on sm_89 but not on sm_90.
bool runs(int code, int gpu) { return code / 10 == gpu / 10 && code <= gpu; }

}  // namespace

Cubin read_cubin(std::span<const std::byte> bytes) { return Reader(bytes).read(); }

const std::vector<std::byte>* choose_cubin(
    const std::map<std::string, std::vector<std::byte>>& cubins, const std::string& architecture) {
  if (const auto own = cubins.find(architecture); own != cubins.end()) return &own->second;
  const std::vector<std::byte>* best = nullptr;
  int best_number = 0;
  const int wanted = number_of(architecture);
  for (const auto& [name, bytes] : cubins) {
    const int number = number_of(name);
    // "sm_90a" runs on that GPU only.
    const bool is_exact = std::isdigit(static_cast<unsigned char>(name.back())) == 0;
    if (!(is_exact ? number == wanted : runs(number, wanted)) || number <= best_number) continue;
    best = &bytes;
    best_number = number;
  }
  return best;
}

void check_kernel(std::span<const std::byte> code, const std::string& architecture,
                  const plan::fb::KernelStepT& step) {
  const auto refuse_usage = [](const std::string& why) { throw Error(ErrorCode::kUsage, why); };
  const Cubin cubin = read_cubin(code);
  if (!runs(cubin.architecture, number_of(architecture)))
    refuse_usage(fmt::format("it is code for sm_{}", cubin.architecture));
  const std::string& function = step.variants[0]->function;
  const auto found = cubin.kernels.find(function);
  if (found == cubin.kernels.end()) {
    std::vector<std::string> names;
    for (const auto& [name, parameters] : cubin.kernels) names.push_back(name);
    refuse_usage(fmt::format("it has no kernel extern \"C\" __global__ '{}'; it has {}", function,
                             names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const std::vector<std::size_t>& parameters = found->second;
  if (parameters.size() != step.args.size())
    refuse_usage(
        fmt::format("kernel '{}' has {} parameters, and 'arguments' has {}: list all of "
                    "them, hidden ones, such as the two pointers at the end of Triton's, "
                    "as \"null\"",
                    function, parameters.size(), step.args.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t size = step.args[i].kind() == plan::fb::ArgKind::Int32 ? 4 : 8;
    if (parameters[i] != size)
      refuse_usage(
          fmt::format("parameter {} of kernel '{}' has {} bytes, and its argument {}: "
                      "pointers and sizes (long long) have 8, i32(..) and f32(..) have 4",
                      i, function, parameters[i], size));
  }
}

}  // namespace sinter::codegen
