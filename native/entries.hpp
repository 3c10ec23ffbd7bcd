// Entries: one conjunction as the index keeps it.
//
// `path` holds the keys the entry is filed under, `tests` what is left to ask. Both trail the entry in the
// same allocation: a subscription costs one piece of memory.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "keys.hpp"
#include "sorted.hpp"

namespace runnel {

struct Node;

struct Subscription {
    Id id;
    struct Entry* entries = nullptr;
    std::uint64_t stamp = 0;  // event in which it was last answered
    bool several = false;     // more than one disjunct: may match twice
};

enum class Ask : std::uint8_t {
    above, below,                                     // numbers, by cut
    text_less, text_less_equal, text_more, text_more_equal,
    not_equal, among, not_among,                      // by the attribute's equality key
    holds, not_holds, like, not_like, present, absent
};

struct Test {
    Ask ask;
    Kind kind;  // the kind the attribute must have
    AttributeNo attribute;
    union {
        Cut cut;
        KeyNo key;
        std::vector<KeyNo>* members;  // sorted, owned by the entry
    };
};

struct Entry {
    Subscription* owner;
    Entry* sibling;
    Node* node;
    std::uint32_t place;  // where the node's Rest keeps it
    std::uint32_t number;  // where the engine's list of entries keeps it
    std::uint16_t path_size;
    std::uint16_t test_size;

    Test* tests() { return reinterpret_cast<Test*>(this + 1); }
    KeyNo* path() { return reinterpret_cast<KeyNo*>(tests() + test_size); }

    static Entry* make(Subscription* owner, const std::vector<KeyNo>& path, const std::vector<Test>& tests) {
        void* memory = std::malloc(sizeof(Entry) + tests.size() * sizeof(Test) + path.size() * sizeof(KeyNo));
        if (!memory) throw std::bad_alloc();
        auto* e = new (memory) Entry{owner, owner->entries, nullptr, 0, 0,
                                     static_cast<std::uint16_t>(path.size()), static_cast<std::uint16_t>(tests.size())};
        std::uninitialized_copy(tests.begin(), tests.end(), e->tests());
        std::uninitialized_copy(path.begin(), path.end(), e->path());
        owner->entries = e;
        return e;
    }
};

inline bool passes(const Test& t, Keys& keys) {
    const Kind kind = keys.kind(t.attribute);
    if (t.ask == Ask::absent) return kind == Kind::absent;
    if (t.ask == Ask::present) return kind != Kind::absent;
    if (kind != t.kind) return false;
    const Attribute& a = keys.attribute(t.attribute);
    switch (t.ask) {
        case Ask::above: return above(a.number, t.cut);
        case Ask::below: return !above(a.number, t.cut);
        case Ask::text_less: return a.text < keys.keys[t.key].text;
        case Ask::text_less_equal: return a.text <= keys.keys[t.key].text;
        case Ask::text_more: return a.text > keys.keys[t.key].text;
        case Ask::text_more_equal: return a.text >= keys.keys[t.key].text;
        case Ask::not_equal: return a.equal != t.key;
        case Ask::among: return std::binary_search(t.members->begin(), t.members->end(), a.equal);
        case Ask::not_among: return !std::binary_search(t.members->begin(), t.members->end(), a.equal);
        case Ask::holds: return keys.holds(t.key);
        case Ask::not_holds: return !keys.holds(t.key);
        case Ask::like: return keys.like_holds(t.key);
        case Ask::not_like: return !keys.like_holds(t.key);
        default: return false;
    }
}

inline bool passes_all(Entry* e, Keys& keys) {
    for (Test *t = e->tests(), *end = t + e->test_size; t < end; ++t)
        if (!passes(*t, keys)) return false;
    return true;
}

// A subscription with several disjuncts is answered once however many of them hold.
inline void answer(Entry* e, const Keys& keys, std::vector<Id>& out) {
    Subscription& s = *e->owner;
    if (s.several) {
        if (s.stamp == keys.now) return;
        s.stamp = keys.now;
    }
    out.push_back(s.id);
}

}  // namespace runnel
