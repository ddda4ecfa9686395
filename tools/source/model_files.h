// SPDX-License-Identifier: Apache-2.0
// What a MODEL on the command line is, and which files it consists of.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/source/hub.h"

namespace sinter::tools {

/// A plan, or what one is compiled from. Paths are of files that exist; empty: there is none.
struct ModelFiles {
  std::string name;      // for people: the file or folder without its ending, the hub's name
  std::string plan;      // compiled already
  std::string encoder;   // of a model of an encoder and a decoder: the encoder's plan or ONNX file
  std::string features;  // preprocessor_config.json, of an encoder of sound or images
  std::string embeddings;  // of a model that sees: what makes its tokens' vectors
  std::string networks;    // of a transducer, whose encoder `model` is: its decoder's file
  std::string model;       // what is compiled: an ONNX file, Graph text, a GGUF file, or a folder
  bool is_gguf = false;
  std::vector<std::string> sources;  // files whose contents decide about the plan
  std::string tokenizer;             // tokenizer.json: other files of texts lie beside it; of a
                                     // transducer its list of tokens
  std::string folder;                // of a Hugging Face model: modules.json and others
};

/// What a folder is used for that has weights and an ONNX file: decoders are made of weights,
/// unless vectors are wanted.
enum class ModelUse { kAny, kVectors };

/// `text`: a path, or a name of the hub that is no path. Throws Error(kUsage) for what does not
/// exist, a folder without weights or with several models, naming them.
ModelFiles find_model(const std::string& text, ModelUse use, const HubOptions& hub,
                      const std::function<void(std::string_view)>& note);

/// Names of the files that lie beside a tokenizer.json and say how texts are made.
const std::vector<std::string>& text_file_names();

}  // namespace sinter::tools
