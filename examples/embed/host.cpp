// host.cpp -- host.c in C++17: an instance is an object on the heap; memory limits their number.
//     host_cpp [PROMPT [TOKENS [TEMPERATURE]]]
#include "story.h"
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

class Story {
public:
    Story() : workspace_(static_cast<unsigned char *>(::operator new[](STORY_WORKSPACE_BYTES, alignment))), logits_(STORY_N_VOCAB)
    {
        check(story_open(&model_, workspace_.get(), STORY_WORKSPACE_BYTES, nullptr), "open");
    }
    ~Story() { story_close(model_); }
    Story(const Story &) = delete;
    Story &operator=(const Story &) = delete;

    void read(const std::string &text)
    {
        std::vector<std::int32_t> tokens(text.size() + 1);            // a token has at least one byte; the first may be BOS
        std::vector<std::uint64_t> scratch(STORY_ENCODE_SCRATCH(text.size()) / 8 + 1);
        const auto n = story_encode(text.data(), text.size(), STORY_SPECIAL | STORY_ADD_BOS, tokens.data(), tokens.size(), scratch.data(),
                                    scratch.size() * 8);
        check(n, "encode");
        check(story_prefill(model_, tokens.data(), static_cast<std::uint32_t>(n), logits_.data()), "prompt");
    }

    // The next piece of text: bytes, perhaps a part of a character.  False at the end.
    bool write(std::string &piece, const story_sampling &sampling)
    {
        const auto token = story_sample(model_, logits_.data(), &sampling);
        if (story_is_end(token)) return false;
        piece.resize(static_cast<std::size_t>(check(story_decode(token, nullptr, 0), "decode")));
        story_decode(token, &piece[0], piece.size());
        full_ = story_step(model_, token, logits_.data()) == STORY_CONTEXT_FULL;
        return true;
    }
    bool full() const { return full_; }

private:
    static constexpr std::align_val_t alignment{ STORY_ALIGN };
    struct Free { void operator()(unsigned char *p) const { ::operator delete[](p, alignment); } };

    static std::int64_t check(std::int64_t status, const char *what)
    {
        if (status < 0) throw std::runtime_error(std::string(what) + ": " + story_strerror(static_cast<int>(status)));
        return status;
    }

    std::unique_ptr<unsigned char[], Free> workspace_;
    std::vector<float> logits_;
    story *model_ = nullptr;                                         // in the workspace
    bool full_ = false;
};

int main(int argc, char **argv)
try {
    const std::string prompt = argc > 1 ? argv[1] : "Once upon a time there was a king who";
    const int length = argc > 2 ? std::atoi(argv[2]) : 150;
    story_sampling sampling{};
    sampling.size = sizeof sampling;
    sampling.temperature = argc > 3 ? static_cast<float>(std::atof(argv[3])) : 0.7f;
    sampling.top_p = 0.9f;

    Story story;
    story.read(prompt);
    std::string piece;
    for (int i = 0; i < length && !story.full() && story.write(piece, sampling); i++) std::cout << piece << std::flush;
    return 0;
} catch (const std::exception &e) {
    std::cerr << "host_cpp: " << e.what() << '\n';
    return 1;
}
