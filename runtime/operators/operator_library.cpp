// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <dlfcn.h>
#include <sinter/file_error.h>
#include <sinter/operators.h>
#include <unistd.h>

#include "runtime/format_error.h"

namespace sinter {

struct OperatorLibrary::Impl {
  std::string name;
  std::vector<sinter_operator> operators;
  std::shared_ptr<const void> owner;
};

OperatorLibrary OperatorLibrary::open(const std::string& path) {
  // dlopen would wait for a pipe's other end.
  std::error_code error;
  if (const auto status = std::filesystem::status(path, error);
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw FileError(
        ErrorCode::kUsage,
        fmt::format("operator library '{}' cannot be opened: it is no regular file", path), path,
        std::filesystem::is_directory(status) ? EISDIR : 0);
  dlerror();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    std::string message =
        fmt::format("operator library '{}' cannot be opened: {}; give the path of a shared library",
                    path, reason != nullptr ? reason : "the system does not say why");
    // dlopen gives no number: a file that can be read is wrong in another way.
    if (::access(path.c_str(), R_OK) == 0) throw usage_error("{}", message);
    throw FileError(ErrorCode::kUsage, std::move(message), path, errno);
  }
  constexpr const char* kSymbol = "sinter_operators";
  const auto get = reinterpret_cast<decltype(&sinter_operators)>(dlsym(handle, kSymbol));
  if (get == nullptr)
    throw usage_error(
        "operator library '{}' does not export '{}', which gives its table of operators "
        "(sinter/sinter_operator.h)",
        path, kSymbol);
  const sinter_operator_table* table = get();
  if (table == nullptr)
    throw usage_error("operator library '{}': '{}' gives no table", path, kSymbol);
  return of_table(*table, path);
}

OperatorLibrary OperatorLibrary::of_table(const sinter_operator_table& table,
                                          const std::string& name,
                                          std::shared_ptr<const void> owner) {
  if (table.abi_version != SINTER_OPERATOR_ABI_VERSION)
    throw usage_error(
        "operator library '{}' is made for version {} of the operators' ABI, and this Sinter has "
        "version {}: build it with the sinter/sinter_operator.h of this Sinter",
        name, table.abi_version, SINTER_OPERATOR_ABI_VERSION);
  constexpr std::size_t kMostBytes = 4096, kMostOperators = 100000;
  if (table.operator_size < sizeof(sinter_operator) || table.operator_size > kMostBytes ||
      table.operator_count > kMostOperators ||
      (table.operator_count > 0 && table.operators == nullptr))
    throw usage_error(
        "operator library '{}' has a table of {} operators of {} bytes at {}: operator_size must "
        "be "
        "sizeof(sinter_operator), which is {}, and operators point to them",
        name, table.operator_count, table.operator_size, static_cast<const void*>(table.operators),
        sizeof(sinter_operator));
  auto impl = std::make_shared<Impl>();
  impl->name = name;
  impl->owner = std::move(owner);
  const auto* bytes = reinterpret_cast<const std::byte*>(table.operators);
  for (std::size_t i = 0; i < table.operator_count; ++i) {
    sinter_operator one;
    std::memcpy(&one, bytes + i * table.operator_size, sizeof one);
    if (one.name == nullptr || one.name[0] == '\0')
      throw usage_error("operator library '{}': operator {} has no name", name, i);
    if (one.run == nullptr && one.enqueue == nullptr)
      throw usage_error("operator library '{}': operator '{}' has neither 'run' nor 'enqueue'",
                        name, one.name);
    if (std::ranges::any_of(impl->operators, [&](const sinter_operator& other) {
          return std::strcmp(other.name, one.name) == 0;
        }))
      throw usage_error("operator library '{}' has operator '{}' twice", name, one.name);
    impl->operators.push_back(one);
  }
  return OperatorLibrary(std::move(impl));
}

const std::string& OperatorLibrary::name() const { return impl_->name; }
const std::vector<sinter_operator>& OperatorLibrary::operators() const { return impl_->operators; }

}  // namespace sinter
