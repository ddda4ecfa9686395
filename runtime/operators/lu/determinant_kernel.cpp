// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/lu/lu.h"

namespace sinter::runtime::cpu {
namespace {

class Determinant final : public LuOperator {
 public:
  explicit Determinant(const OperatorCall& call) : LuOperator(call) {}

  std::size_t workspace_bytes() const override {
    return is_double() ? LuRows<double>::bytes(n_) : LuRows<float>::bytes(n_);
  }
  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    each_matrix(workspaces, [&](std::int64_t which, int team, std::byte* workspace) {
      const double result = is_double()
                                ? determinant<double>(matrix(operands, which), team, workspace)
                                : determinant<float>(matrix(operands, which), team, workspace);
      store_double(type_, operands.output<std::byte>(0) + which * size(), result);
    });
  }

 private:
  template <typename T>
  double determinant(const std::byte* from, int team, std::byte* workspace) const {
    Lu<T> lu({reinterpret_cast<T*>(workspace), LuRows<T>::pitch_of(n_)}, n_, nullptr);
    lu.load(type_, from);
    lu.factor(team);
    return lu.determinant();
  }
};

}  // namespace

const OperatorKernel& determinant_kernel() {
  static const OperatorKernel kernel = {"determinant", prepare<Determinant>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
