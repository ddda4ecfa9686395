// SPDX-License-Identifier: Apache-2.0
#ifdef SINTER_WITH_CUDA
#include "cuda_emulation.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/paths.h"

namespace sinter::test {

namespace fs = std::filesystem;

namespace {

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// "-I.. " for every folder of device headers, in and below the folder `sinter`.
std::string device_folders() {
  std::set<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(source_dir() + "/codegen"))
    if (entry.path().extension() == ".cuh") folders.insert(entry.path().parent_path());
  std::string text;
  for (const fs::path& folder : folders)
    text += fmt::format("-Isinter/{} ", folder.lexically_relative(source_dir()).string());
  return text;
}

/// A kernel's parameters are pointers, integers and the bits of floats; all travel as long.
std::string wrapper(const plan::fb::KernelStepT& step, const plan::fb::KernelVariantT& variant) {
  std::string list;
  if (step.packed)
    list = fmt::format("*reinterpret_cast<const {}_arguments*>(a)", variant.function);
  for (std::size_t a = 0; !step.packed && a < step.args.size(); ++a)
    list += fmt::format("{}Argument(a[{}])", a > 0 ? ", " : "", a);
  for (std::size_t m = 0; m < variant.maps.size(); ++m)
    list += fmt::format(", *reinterpret_cast<const TensorMap*>(a[{}])", step.args.size() + m);
  return fmt::format(
      "extern \"C\" const char* launch_{0}(const unsigned* grid, const unsigned* block, const "
      "long* a) {{\n  return emulator::launch([](const long* a) {{ {0}({1}); }}, grid, block, {2}, "
      "a);\n}}\n",
      variant.function, list, variant.cluster);
}

/// Memory whose end is followed by a page that traps.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(const std::vector<std::byte>& bytes) : size_(bytes.size()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size_ + 15) / 16 * 16;
    mapped_ = (mapped_ + page - 1) / page * page + 2 * page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap failed");
    std::byte* end = base_ + mapped_ - page;
    mprotect(end, page, PROT_NONE);
    mprotect(base_, page, PROT_NONE);
    data_ = end - (size_ + 15) / 16 * 16;  // vectors need 16-byte alignment
    std::memcpy(data_, bytes.data(), size_);
    std::memset(data_ + size_, 0x5a, slack());
  }
  ~GuardedBuffer() { munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() { return data_; }
  void copy_to(std::vector<std::byte>& bytes) const {
    std::memcpy(bytes.data(), data_, size_);
    for (std::size_t i = 0; i < slack(); ++i)
      if (data_[size_ + i] != std::byte{0x5a}) throw std::runtime_error("written past a buffer");
  }

 private:
  std::size_t slack() const { return (size_ + 15) / 16 * 16 - size_; }
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0, mapped_ = 0;
};

}  // namespace

EmulatedKernels::EmulatedKernels(std::span<const codegen::EmittedKernel> kernels, bool for_ranks) {
  std::string pattern = (fs::temp_directory_path() / "sinter-emulated-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  folder_ = pattern;
  std::ofstream source(folder_ + "/kernels.cpp");
  source
      << "#include \"cuda_emulator.h\"\n"
         "struct Argument {\n  long value;\n  explicit Argument(long v) : value(v) {}\n"
         "  template <class T> operator T*() const { return reinterpret_cast<T*>(value); }\n"
         "  operator int() const { return static_cast<int>(value); }\n"
         "  operator long long() const { return value; }\n"
         "  operator float() const { return emulator::bits_to_float(static_cast<unsigned>(value)); "
         "}\n};\n";
  for (const auto& kernel : kernels) {
    source << kernel.source;
    std::set<std::string> wrapped;
    const auto wrap = [&](const plan::fb::KernelStepT& step) {
      for (const auto& variant : step.variants)
        if (wrapped.insert(variant->function).second) source << wrapper(step, *variant);
    };
    wrap(kernel.step);
    for (const auto& step : kernel.more) wrap(step);
  }
  source.close();
  // Undefined behaviour (an overflowing index, a misaligned vector) traps; null pointers and what
  // lies outside of buffers do so without help. -O0 runs four times as long, -O1 compiles longer.
  // Compiled by its name in its folder, with headers behind a link, so that ccache knows the same
  // kernels again wherever the sources lie.
  fs::create_directory_symlink(source_dir(), folder_ + "/sinter");
  const std::string command = fmt::format(
      "cd {} && ({} g++ -std=c++17 -Og -w -fPIC -fno-strict-aliasing "
      "-fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero "
      "-fsanitize=object-size,return,unreachable -fsanitize-undefined-trap-on-error "
      "-Isinter/tests/codegen/emulation/cuda_emulator {}{}"
      "-c -o kernels.o kernels.cpp && g++ -shared -o kernels.so kernels.o) > log 2>&1",
      folder_, SINTER_CCACHE, for_ranks ? "-DSINTER_EMULATED_RANKS " : "", device_folders());
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error(
        fmt::format("{}\n{}", command, read_file(folder_ + "/log").substr(0, 8000)));
  library_ = dlopen((folder_ + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw std::runtime_error(dlerror());
}

EmulatedKernels::~EmulatedKernels() {
  if (library_ != nullptr) dlclose(library_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void EmulatedKernels::run(const plan::fb::KernelStepT& step, std::size_t variant,
                          std::span<const std::int64_t> expressions, Memory& memory) const {
  const plan::fb::KernelVariantT& code = *step.variants[variant];
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<std::uint32_t> indices;
  std::vector<long> values;
  for (const auto& arg : step.args) {
    if (arg.kind() != plan::fb::ArgKind::Buffer) {
      const std::int64_t value = expressions[arg.index()];
      if (arg.kind() == plan::fb::ArgKind::Int32 && value != static_cast<std::int32_t>(value))
        throw std::runtime_error("a 32-bit argument overflows");
      values.push_back(value);
      continue;
    }
    buffers.push_back(std::make_unique<GuardedBuffer>(memory.at(arg.index())));
    indices.push_back(arg.index());
    values.push_back(reinterpret_cast<long>(buffers.back()->data()));
  }
  // As TensorMap in device/tensor_map.cuh has it; outlive the launch.
  std::vector<std::array<long, 27>> maps(code.maps.size());
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const plan::fb::TensorMapT& map = *code.maps[m];
    const auto at = std::find(indices.begin(), indices.end(), map.buffer);
    const auto& base = buffers.at(static_cast<std::size_t>(at - indices.begin()));
    const long bytes = 128 / map.box[0];  // of an element: a row of a box has 128 bytes
    auto& to = maps[m];
    to[0] = reinterpret_cast<long>(base->data()) + expressions[map.offset] * bytes;
    to[1] = bytes;
    to[2] = static_cast<long>(map.extents.size());
    for (std::size_t d = 0; d < map.extents.size(); ++d) {
      to[3 + d] = expressions[map.extents[d]];
      if (d > 0) to[8 + d] = expressions[map.strides[d - 1]];
      if (d < map.box.size()) to[13 + d] = map.box[d];
      if (to[0] % 16 != 0 || to[8 + d] * bytes % 16 != 0)
        throw std::runtime_error("a tensor map is not aligned");
    }
    for (std::size_t d = 0; d < map.lower.size(); ++d) {
      to[18 + d] = map.lower[d];
      to[21 + d] = map.upper[d];
      to[24 + d] = map.steps[d];
    }
    values.push_back(reinterpret_cast<long>(to.data()));
  }
  launch(code, expressions, values);
  for (std::size_t b = 0; b < buffers.size(); ++b) buffers[b]->copy_to(memory[indices[b]]);
}

void EmulatedKernels::run_at(const plan::fb::KernelStepT& step, std::size_t variant,
                             std::span<const std::int64_t> expressions,
                             std::span<std::byte* const> addresses) const {
  std::vector<long> values;
  for (const auto& arg : step.args)
    values.push_back(arg.kind() == plan::fb::ArgKind::Buffer
                         ? reinterpret_cast<long>(addresses[arg.index()])
                         : static_cast<long>(expressions[arg.index()]));
  launch(*step.variants[variant], expressions, values);
}

void EmulatedKernels::launch(const plan::fb::KernelVariantT& code,
                             std::span<const std::int64_t> expressions,
                             const std::vector<long>& values) const {
  unsigned grid[3], block[3];
  for (int d = 0; d < 3; ++d) {
    grid[d] = static_cast<unsigned>(expressions[code.grid[static_cast<std::size_t>(d)]]);
    block[d] = code.block[static_cast<std::size_t>(d)];
  }
  using Launch = const char* (*)(const unsigned*, const unsigned*, const long*);
  const auto launch =
      reinterpret_cast<Launch>(dlsym(library_, ("launch_" + code.function).c_str()));
  if (launch == nullptr) throw std::runtime_error("no function " + code.function);
  if (const char* error = launch(grid, block, values.data()))
    throw std::runtime_error(code.function + ": " + error);
}

bool may_run(const plan::fb::KernelVariantT& variant, std::span<const std::int64_t> expressions) {
  for (const auto& condition : variant.conditions) {
    const std::int64_t value = expressions[condition.expression()];
    if (value % static_cast<std::int64_t>(condition.divisor()) != 0 || value > condition.max())
      return false;
  }
  return true;
}

std::string run_variants(const std::string& name, const EmulatedKernels& library,
                         const plan::fb::KernelStepT& step,
                         std::span<const std::int64_t> expressions, const Memory& memory,
                         const CheckVariant& check) {
  std::string problems;
  bool ran = false;
  for (std::size_t v = 0; v < step.variants.size(); ++v) {
    const auto& variant = *step.variants[v];
    if (!may_run(variant, expressions)) continue;
    ran = true;
    Memory found = memory;
    try {
      library.run(step, v, expressions, found);
    } catch (const std::exception& error) {
      problems += fmt::format("{}: {}\n", variant.function, error.what());
      continue;
    }
    problems += check(variant, found);
  }
  if (!ran) problems += fmt::format("{}: no variant may run\n", name);
  return problems;
}

std::string problem_in(const plan::fb::KernelVariantT& variant, std::size_t which,
                       const std::string& difference) {
  if (difference.empty()) return "";
  return fmt::format("{} ({}): {}{}\n", variant.function, variant.schedule, which, difference);
}

}  // namespace sinter::test
#endif
