#include "fusion/context.h"

namespace sinter::fusion {
namespace {

std::set<std::string, std::less<>> conv_activations() {
  return {"Relu", "Gelu", "GeluTanh",  "Sigmoid",     "Tanh",
          "Silu", "Clip", "LeakyRelu", "HardSigmoid", "HardSwish"};
}

}  // namespace

TargetTraits cpu_traits() {
  TargetTraits traits;
  traits.has_conv = true;
  traits.conv_channels_last = true;
  traits.conv_epilogue_residual = true;
  traits.conv_epilogue_activations = conv_activations();
  traits.has_integer_matmul = true;
  traits.matmul_epilogue_gelu_erf = true;
  traits.matmul_epilogue_gelu_tanh = true;
  traits.quantised_matmul = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  traits.attention_steps = traits.quantised_matmul;
  return traits;
}

TargetTraits cuda_traits() {
  TargetTraits traits;
  traits.cuda = true;
  traits.attention = true;
  traits.product_kernels = true;
  traits.horizontal = true;
  traits.conv_channels_last = true;
  traits.conv_any_float = true;
  traits.conv_as_kernels = true;
  traits.conv_epilogue_residual = true;
  traits.conv_epilogue_activations = conv_activations();
  traits.matmul_epilogue_gelu_tanh = true;
  traits.quantised_matmul = {DType::kFloat16, DType::kBFloat16};
  traits.quantised_group = 16;
  traits.quantised_zeros_in_type = true;
  return traits;
}

}  // namespace sinter::fusion
