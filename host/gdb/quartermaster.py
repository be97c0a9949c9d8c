"""GDB commands that read Quartermaster's data: (gdb) source quartermaster.py

    qm caches [NAME]      as slab_stats on the console    qm traces NAME     as slab_trace print
    qm whatis WHERE       as whatis, address or name      qm stacks [NAME]   as slab_stacks
    qm free               as free -b                      qm kmemstat [NAME] as kmemstat -b
    qm allocinfo [NUMBER] as allocinfo [top NUMBER]       qm growth [MARK]   as growth, but all entries, not the ten largest
    qm findleaks          as findleaks, which stops nothing here
    qm image FILE BASE    reads raw memory saved by QEMU's `pmemsave BASE SIZE FILE` instead of a running target

NAME and NUMBER may be GDB expressions: a cache or a pointer to one, a variable. NAME may have * and ?. The commands need the
image with its debug information, which has the layout of structures and bit fields. They read memory and run nothing on the
target, so they work at any stop, after a panic, on a core (QEMU's `dump-guest-memory`) and on a memory image. The target may
be stopped anywhere, so a change of a hart may be half done; each list says how much it read. A list that damaged memory has
made endless ends where it repeats, or after LONGEST steps, and a line reports that. The file also has pretty-printers for
caches, arenas and atomics.
"""

import bisect
import fnmatch
import os
import re
import struct
import tempfile

import gdb
import gdb.printing

# Entries and slots of a part of the directory of traced sources, and of contexts: trace/src/tracer.hpp, context_table.hpp.
PART_ENTRIES, PART_SLOTS = 16, 4

LONGEST = 1 << 20  # steps of a walk: undamaged memory needs fewer
MOST_HARTS = 64
LINE_FRAMES = 8  # of a stack in one line: console/trace/src/trace_text.cpp


def plain(value):
    """The value of an atomic: an integer if it holds a number, an address if it holds a pointer."""
    while True:
        kind = value.type.strip_typedefs()
        if kind.code != gdb.TYPE_CODE_STRUCT:
            break
        names = [field.name for field in kind.fields()]
        for name in ("_M_i", "_M_b", "_M_p", "_M_base"):
            if name in names:
                value = value[name]
                break
        else:
            bases = [field for field in kind.fields() if field.is_base_class]
            if not bases:
                break
            value = value.cast(bases[0].type)
    return value


def number(value):
    return int(plain(value))


def static(name, member=None, namespace="qm"):
    """A variable of an unnamed namespace; if several have the name, the one that has @p member."""
    for symbol in gdb.lookup_static_symbols("%s::(anonymous namespace)::%s" % (namespace, name)):
        kind = symbol.type.strip_typedefs()
        if member and (kind.code != gdb.TYPE_CODE_STRUCT or member not in [field.name for field in kind.fields()]):
            continue
        return symbol.value()
    raise gdb.GdbError("the image has no %s::%s: is its debug information there, and is it Quartermaster's?" %
                       (namespace, name))


def variable(name):
    symbol = gdb.lookup_global_symbol(name)
    return symbol.value() if symbol is not None else None


def address_text(address):
    return "0x%0*x" % (2 * gdb.lookup_type("char").pointer().sizeof, address)


def counted_as(count, one, many):
    """A number and its noun, as the console prints it: 1 object, 2 objects."""
    return "%d %s" % (count, one if count == 1 else many)


def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def bounded(nodes, what):
    """The nodes of a list, up to a node that has come before, to LONGEST nodes, or to memory that cannot be read."""
    seen = set()
    try:
        for node in nodes:
            address = int(node) if node.type.code == gdb.TYPE_CODE_PTR else int(node.address)
            if address in seen or len(seen) == LONGEST:
                print("note: %s do not end: memory is damaged" % what)
                return
            seen.add(address)
            (node.dereference() if node.type.code == gdb.TYPE_CODE_PTR else node).fetch_lazy()
            yield node
    except gdb.MemoryError as error:
        print("note: %s end where memory does: %s" % (what, error))


def at(address, type_name):
    """The memory at an address, as a structure of the image."""
    return gdb.Value(address).cast(gdb.lookup_type(type_name).pointer()).dereference()


def constant(type_name, name):
    """A constant of a class, or an enumerator."""
    kind = gdb.lookup_type(type_name).strip_typedefs()
    for field in kind.fields():
        if field.name is not None and field.name.rsplit("::", 1)[-1] == name:
            if kind.code == gdb.TYPE_CODE_ENUM:
                return int(field.enumval)
            return int(gdb.Value(0).cast(kind.pointer()).dereference()[field])
    raise gdb.GdbError("the image has no %s of %s: is it another's?" % (name, type_name))


class Layout:
    """The offsets of the members of a structure. For many structures this is faster than one gdb.Value each."""

    def __init__(self, type_name):
        self.type = gdb.lookup_type(type_name).strip_typedefs()
        self.sizeof = self.type.sizeof
        self.members = {field.name: (field.bitpos // 8, field.type.sizeof) for field in self.type.fields()
                        if hasattr(field, "bitpos") and not field.is_base_class}

    def number(self, data, start, name):
        offset, size = self.members[name]
        return int.from_bytes(data[start + offset : start + offset + size], "little")


def elements(array):
    """The elements of a std::array."""
    values = array["_M_elems"]
    first, last = values.type.strip_typedefs().range()
    return [values[at] for at in range(first, last + 1)]


def limited(count, limit, what):
    """Returns a count read from the target; refuses one that is out of range."""
    if not 0 <= count <= limit:
        raise gdb.GdbError("%d %s: memory is damaged, or the image is another" % (count, what))
    return count


def text_of(value, limit=256):
    """A C string, cut after the limit; `?` if the memory cannot be read."""
    try:
        text = b""
        while len(text) < limit and not text.endswith(b"\0"):
            text += memory(int(value) + len(text), 1)
        return text.rstrip(b"\0").decode("ascii", "replace")
    except gdb.error:
        return "?"


def is_glob(pattern):
    return "*" in pattern or "?" in pattern or pattern == "kmalloc"


def matches(pattern, name):
    if pattern == "kmalloc":  # the whole heap
        return name == "kheap" or name.startswith("kmalloc_")
    if is_glob(pattern):
        return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
    return not pattern or pattern == name


# ---- names of functions ----------------------------------------------------------------------------------------------


def uleb128(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


class Names:
    """The function or variable around an address. It is found in the symbol table in the image, which the console uses
    (its layout is in firmware/boot/src/symbols.cpp), or, if the image has no such table, by GDB."""

    def __init__(self):
        self.starts, self.sizes, self.names = [], [], []
        self.text_end = image_address("__text_end")
        text, table_start = image_address("__text_start"), image_address("__qm_symbol_table_start")
        if text == 0 or table_start == 0:
            return
        try:
            header_type = gdb.lookup_type("qm::firmware::(anonymous namespace)::Header")
            block_type = gdb.lookup_type("qm::firmware::(anonymous namespace)::Block")
            per_block = number(static("kBlock", namespace="qm::firmware"))
            header = gdb.Value(table_start).cast(header_type.pointer()).dereference()
            table = memory(table_start, number(header["bytes"]))
        except (gdb.error, gdb.GdbError):
            return
        scopes = table[number(header["qualifiers"]) :].decode().split("\0")
        first = gdb.Value(table_start + header_type.sizeof).cast(block_type.pointer())
        gap = 0
        for i in range(number(header["records"])):
            if i % per_block == 0:
                block = first[i // per_block]
                start, at = number(block["text_offset"]), number(block["records"])
            distance, at = uleb128(table, at)
            padding, at = uleb128(table, at)
            end = table.index(0, at + 1)
            start += distance
            if self.starts:
                self.sizes.append(text + start - self.starts[-1] - gap)
            gap = padding
            self.starts.append(text + start)
            self.names.append(scopes[table[at]] + table[at + 1 : end].decode())
            at = end + 1
        if self.starts:
            self.sizes.append(text + number(header["reach"]) - self.starts[-1] - gap)

    def find(self, pc):
        """Name, offset, and size (0: not known); None if there is no function."""
        if not self.starts:
            text = gdb.execute("info symbol 0x%x" % pc, to_string=True)
            told = re.match(r"(.*?)(?: \+ (\d+))? in section \.text", text)
            return (told.group(1), int(told.group(2) or 0), 0) if told else None
        place = bisect.bisect_right(self.starts, pc) - 1
        if place < 0 or not self.names[place] or pc >= self.starts[place] + self.sizes[place]:
            return None
        return self.names[place], pc - self.starts[place], self.sizes[place]


    def start(self, name):
        """The start of the function with this name; None if there is none, or there are several."""
        found = [start for start, known in zip(self.starts, self.names) if known == name]
        return found[0] if len(found) == 1 else None


def name_text(name, offset, size):
    return "%s+0x%x" % (name, offset) + ("/0x%x" % size if size else "")


# ---- caches and arenas -----------------------------------------------------------------------------------------------


def entries(kind, hidden=False):
    """Arenas (0) or caches (1), in the order of their creation; those that are being destroyed only with @p hidden."""

    def following(entry):
        while int(entry) != 0:
            yield entry
            entry = entry["next_"]

    for entry in bounded(following(static("firsts")[kind]), "caches and arenas"):
        if hidden or not entry["hidden_"]:
            yield entry


def arenas(hidden=False):
    kind = gdb.lookup_type("qm::Arena").pointer()
    return [entry.cast(gdb.lookup_type("qm::Traceable").pointer()).cast(kind).dereference() for entry in entries(0, hidden)]


def caches(hidden=False):
    kind = gdb.lookup_type("qm::Cache").pointer()
    return [entry.cast(gdb.lookup_type("qm::Traceable").pointer()).cast(kind).dereference() for entry in entries(1, hidden)]


def name_of(source):
    return text_of(source["name_"])


def harts():
    return limited(int(static("caches", member="harts_")["harts_"]), MOST_HARTS, "harts")


class CacheView:
    """A cache, and the places of its objects."""

    def __init__(self, cache):
        self.cache = cache
        self.slabs = cache["slabs_"]
        self.depot = cache["depot_"]
        self.has_magazines = "first_" in [field.name for field in self.depot.type.strip_typedefs().fields()]  # QM_MAGAZINES
        kind = gdb.lookup_type("qm::HartCache" if self.has_magazines else "qm::HartCounts").pointer()
        first = gdb.Value(int(cache.address) + cache.type.sizeof).cast(kind)
        self.hart_caches = [first[hart] for hart in range(harts())] if self.has_magazines else []
        self.counts = [first[hart]["counts"] if self.has_magazines else first[hart] for hart in range(harts())]
        extra = int(plain(cache["extra_"]))
        self.extra = gdb.Value(extra).cast(gdb.lookup_type("qm::CacheExtra").pointer()).dereference() if extra else None
        self.word = gdb.lookup_type("char").pointer().sizeof

    def trailer(self):
        """As SlabLayer::trailer(): the bytes before an object, for the tag of a call site, and after it, in a checking
        build."""
        fields = self.slabs["tagging_"].type.fields()
        tagging = [field.name for field in fields if not field.is_base_class and hasattr(field, "bitpos")]
        align = 1 << int(self.slabs["alignment_log2_"])
        lead = align if "tagged" in tagging and bool(self.slabs["tagging_"]["tagged"]) else 0
        redzone = 0 if bool(self.slabs["no_touch_"]) else constant("qm::SlabLayer", "kRedzone")
        return lead + ((redzone + align - 1) & ~(align - 1))

    def object_size(self):
        return int(self.slabs["stride_"]) - self.trailer()

    # -- magazines

    def closed(self):
        return int(gdb.lookup_global_symbol("qm::kClosed").value()[1].address)

    def loaded_rounds(self, hart_cache):
        """Addresses of the slots in use in the loaded magazine of a per-hart cache."""
        top = number(hart_cache["top"])
        if top == self.closed():
            top = number(hart_cache["saved_top"])
        loaded = number(hart_cache["loaded"])
        if loaded == 0:
            return []
        slots = loaded + gdb.lookup_type("qm::Magazine").sizeof
        count = (top - slots) // self.word
        return [slots + i * self.word for i in range(count)] if 0 <= count <= self.capacity(loaded) else []

    def capacity(self, magazine):
        return int(at(magazine, "qm::Magazine")["capacity"])

    def magazine_slots(self, magazine):
        """Addresses of the slots in use in a magazine that is not loaded."""
        header = at(magazine, "qm::Magazine")
        slots = magazine + header.type.sizeof
        return [slots + i * self.word for i in range(int(header["rounds"]))]

    def rounds(self, hart_cache):
        return len(self.loaded_rounds(hart_cache)) + number(hart_cache["prev_rounds"])

    def pointer(self, address):
        return int.from_bytes(memory(address, self.word), "little")

    def magazine_list(self, first):
        """The address of each magazine of a list, and its idle objects."""

        def following(header):
            while int(header) != 0:
                yield header
                header = header["next"]

        for header in bounded(following(gdb.Value(first).cast(gdb.lookup_type("qm::Magazine").pointer())), "magazines"):
            yield int(header), [self.pointer(slot) for slot in self.magazine_slots(int(header))]

    def magazine_objects(self, first):
        return (one for _, objects in self.magazine_list(first) for one in objects)

    def magazines(self):
        """Each magazine's address, and its idle objects."""
        for hart_cache in self.hart_caches:
            loaded, previous = number(hart_cache["loaded"]), int(hart_cache["prev"])
            if loaded != 0:
                yield loaded, [self.pointer(slot) for slot in self.loaded_rounds(hart_cache)]
            if previous != 0:
                yield previous, [self.pointer(slot) for slot in self.magazine_slots(previous)]
        lists = []
        if self.has_magazines:
            lists = [number(self.depot["first_"][at]) for at in range(self.depot["first_"].type.sizeof // self.word)]
        if self.extra is not None:
            lists += [int(self.extra["reserve"][name]) for name in ("stocked_", "spare_")]
        for first in lists:
            yield from self.magazine_list(first)

    def taken(self, slab):
        """The starts of the objects that are allocated from a slab."""
        start, word_bytes = self.bitmap(slab)
        words = memory(start, int(slab.address) - start)
        bits = 8 * word_bytes
        stride, first = int(self.slabs["stride_"]), int(slab["start"])
        for index in range(int(slab["objects"])):
            at = len(words) - (1 + index // bits) * word_bytes  # the last word has the first objects
            if int.from_bytes(words[at : at + word_bytes], "little") >> (index % bits) & 1 == 0:
                yield first + index * stride

    def quarantine(self):
        """The cache's qm::Quarantine; None if it never had one."""
        address = number(self.extra["quarantine"]) if self.extra is not None else 0
        return at(address, "qm::Quarantine") if address != 0 else None

    def quarantined(self):
        quarantine = self.quarantine()
        if quarantine is None:
            return
        first, table = int(quarantine["first_"]), int(quarantine["table_"])
        for position in range(min(number(quarantine["held_"]), table)):
            yield int(quarantine["entries_"][(first + position) % table]["object"])

    def slab_bytes(self):
        return int(self.slabs["slab_bytes_"])

    # -- slabs

    def all_slabs(self):
        def following(first):
            slab = first
            while int(slab) != 0:
                yield slab.dereference()
                slab = plain(slab["next"]).cast(first.type)
                if slab == first:
                    return

        for ring in ("usable_", "full_"):
            yield from bounded(following(plain(self.slabs[ring]["first_"])), "slabs of %s" % name_of(self.cache))

    def bytes_of(self, slab):
        """As SlabLayer::bytes_of(): a slab of one object ends right behind its header."""
        whole = int(slab["objects"]) != 1 or int(self.slabs["objects_"]) == 1
        return self.slab_bytes() if whole else int(slab.address) + slab.type.sizeof - int(slab["start"])

    def slab_of(self, address):
        for slab in self.all_slabs():
            start = int(slab["start"])
            if bool(self.slabs["no_touch_"]):
                if 0 <= address - start < int(slab["objects"]) * int(self.slabs["stride_"]):
                    return slab
            else:
                end = (address | (self.slab_bytes() - 1)) + 1
                if end - slab.type.sizeof == int(slab.address) and end - address <= self.bytes_of(slab):
                    return slab
        return None

    def bitmap(self, slab):
        """The start of the bitmap of a slab's free objects, and the bytes of each of its words."""
        word = gdb.lookup_type("long").sizeof
        words = (int(self.slabs["objects_"]) + 8 * word - 1) // (8 * word)
        return int(slab.address) - words * word, word

    def is_free(self, slab, index):
        word_bytes = gdb.lookup_type("long").sizeof  # the last word has the first objects
        bits = 8 * word_bytes
        word = memory(int(slab.address) - (1 + index // bits) * word_bytes, word_bytes)
        return int.from_bytes(word, "little") >> (index % bits) & 1 != 0

    def whereabouts(self, slab, index, address):
        if self.is_free(slab, index):
            return "free in its slab"
        for hart, hart_cache in enumerate(self.hart_caches):
            if address in [self.pointer(slot) for slot in self.loaded_rounds(hart_cache)]:
                return "idle in a magazine of hart %d" % hart
            previous = int(hart_cache["prev"])
            if previous != 0:
                if address in [self.pointer(slot) for slot in self.magazine_slots(previous)]:
                    return "idle in a magazine of hart %d" % hart
        if self.has_magazines and address in self.magazine_objects(number(self.depot["first_"][0])):
            return "idle in the depot"
        if self.extra is not None and address in self.magazine_objects(int(self.extra["reserve"]["stocked_"])):
            return "idle in the reserve"
        if address in self.quarantined():
            return "idle in quarantine"
        return "in use"

    def allocations(self):
        """The number of allocations so far; None in a build that does not count them."""
        try:
            if int(self.cache["flags_"]) & constant("qm::Cache", "kWithoutMagazines"):
                return number(self.slabs["taken_ever_"])
            return sum(number(counts["allocs"]) for counts in self.counts)
        except gdb.error:
            return None

    def stats(self):
        slabs = self.slabs
        whole = int(slabs["slabs_"]) - int(slabs["short_slabs_"])
        total = whole * int(slabs["objects_"]) + int(slabs["short_slabs_"])
        out = int(slabs["out_"])
        in_magazines = sum(self.rounds(hart_cache) for hart_cache in self.hart_caches)
        in_depot = number(self.depot["full_rounds_"]) if self.has_magazines else 0
        reserved = number(self.extra["reserve"]["held_"]) if self.extra is not None else 0
        quarantine = self.quarantine()
        quarantined = number(quarantine["held_"]) if quarantine is not None else 0
        idle = in_magazines + in_depot + reserved + quarantined
        limit = number(slabs["limit_"])
        return {
            "in_slabs": total - out, "out": out,
            "in_magazines": in_magazines, "in_depot": in_depot, "reserved": reserved,
            "reserve": number(self.extra["reserve"]["promised_"]) if self.extra is not None else 0,
            "quarantined": quarantined,
            "quarantine": number(quarantine["bytes_"]) if quarantine is not None else 0,
            "passed": number(quarantine["passed_"]) if quarantine is not None else 0,
            "in_use": max(out - idle, 0), "limit": 0 if limit == constant("qm::SlabLayer", "kNoLimit") else limit,
            "total": total,
            "allocations": self.allocations(),
            "failures": sum(number(counts["failures"]) for counts in self.counts),
            "misuses": sum(number(counts["misuses"]) for counts in self.counts),
            "misses": sum(number(counts["misses"]) for counts in self.counts),
        }


# ---- the trace -------------------------------------------------------------------------------------------------------


class RecordBits:
    """The division of a record's words into fields: see trace/include/qm/trace/record_table.hpp."""

    def __init__(self):
        self.hart = constant("qm::trace::RecordSlot", "kHartBits")
        self.mark = constant("qm::trace::RecordSlot", "kMark")
        self.stack = constant("qm::trace::StackEntry", "kHandleBits")


class Record:
    """A record in its slot."""

    def __init__(self, layout, bits, data, start):
        self.cache, self.object, self.time, self.size = (
            layout.number(data, start, name) for name in ("cache", "object", "time", "size"))
        hart_sequence = layout.number(data, start, "hart_sequence")
        stack_context = layout.number(data, start, "stack_context")
        self.hart = hart_sequence & (1 << bits.hart) - 1
        low_bits = 8 * layout.members["sequence_low"][1]
        self.sequence = hart_sequence >> bits.hart << low_bits | layout.number(data, start, "sequence_low")
        self.stack = stack_context & (1 << bits.stack) - 1
        self.context = (stack_context & ~bits.mark) >> bits.stack


class Trace:
    REASONS = ("records full", "no memory for records", "no memory for handles", "address out of range")

    def __init__(self):
        self.tracer = variable("qm::trace::tracer")
        self.ready = self.tracer is not None and int(self.tracer["trace_cache_"]) != 0
        self.names = Names()
        self.word = gdb.lookup_type("char").pointer().sizeof
        if self.ready:
            self.opened = number(self.tracer["open_"]) != 0
            self.stack_layout = Layout("qm::trace::StackEntry")
            chunk = limited(int(self.tracer["trace_cache_"]["slabs_"]["stride_"]), LONGEST, "bytes of a chunk of records")
            self.region_log2 = 10 if chunk > 2048 else 7  # by QM_PAGE_BYTES: trace/include/qm/trace/stack_depot.hpp
            self.truncated, self.collided, self.first_stack, self.handle_unit = (
                constant("qm::trace::StackEntry", name) for name in ("kTruncated", "kCollided", "kFirst", "kHandleUnit"))

    def of(self, source):
        """The trace data of a cache or an arena; None: it was never traced."""
        at = number(source["traced_source"])
        if at == 0:
            return None
        return gdb.Value(at).cast(gdb.lookup_type("qm::trace::TracedSource").pointer()).dereference()

    def numbered(self):
        if not self.ready or not self.opened:
            return
        for index in range(1, limited(int(self.tracer["cache_limit_"]), LONGEST, "caches at most") + 1):
            part = number(self.tracer["directory_"][index // PART_ENTRIES])
            if part == 0:
                return
            at = int.from_bytes(memory(part + index % PART_ENTRIES * self.word, self.word), "little")
            if at == 0:
                return
            yield gdb.Value(at).cast(gdb.lookup_type("qm::trace::TracedSource").pointer()).dereference()

    def figures(self, one):
        kind = gdb.lookup_type("qm::trace::HartTrace").pointer()
        first = gdb.Value(int(one.address) + one.type.sizeof).cast(kind)
        mask = (1 << 8 * gdb.lookup_type("long").sizeof) - 1
        sums = {"recorded": 0, "left_out": 0, "lost_stacks": 0, "lost_contexts": 0, "dropped": [0] * len(self.REASONS)}
        for hart in range(limited(int(self.tracer["harts_"]), MOST_HARTS, "harts")):
            now, base = first[hart]["now"], first[hart]["base"]
            for name in ("recorded", "left_out", "lost_stacks", "lost_contexts"):
                sums[name] += (number(now[name]) - number(base[name])) & mask
            for reason in range(len(self.REASONS)):
                sums["dropped"][reason] += (number(now["dropped"][reason]) - number(base["dropped"][reason])) & mask
        return sums

    @staticmethod
    def state(source):
        word = number(source["state_"])
        if word & constant("qm::Traceable", "kRecorded"):
            return "on"
        if word & constant("qm::Traceable", "kHeld"):
            return "stopping"
        return "draining" if word & constant("qm::Traceable", "kWatched") else "off"

    def numbers_on(self, sources):
        """The numbers of those of these sources whose trace is not off."""
        traced = ((self.of(source), source) for source in sources)
        return {int(one["number"]) for one, source in traced if one is not None and self.state(source) != "off"}

    def dropped_ever(self, one):
        """As trace::dropped_of(): allocations without a record, resets or not."""
        kind = gdb.lookup_type("qm::trace::HartTrace").pointer()
        first = gdb.Value(int(one.address) + one.type.sizeof).cast(kind)
        return sum(number(first[hart]["now"]["dropped"][reason])
                   for hart in range(limited(int(self.tracer["harts_"]), MOST_HARTS, "harts"))
                   for reason in range(len(self.REASONS))) & 0xFFFFFFFF

    @staticmethod
    def from_before_start(one, source):
        """As trace::cache_trace() computes it: at most the number of live objects that have no record."""
        if source.type.name == "qm::Cache":
            held = CacheView(source).stats()["in_use"]
        else:
            counts = source["counts_"]
            held = int(counts["allocations_ever"]) - int(counts["frees_ever"]) - int(source["slab_segments_"])
        return min(number(one["from_before_start"]), max(held - number(source["live_records"]), 0))

    def records(self):
        if not self.ready or not self.opened:
            return
        table = self.tracer["records"]
        layout, bits = Layout("qm::trace::RecordSlot"), RecordBits()
        stride = limited(int(self.tracer["trace_cache_"]["slabs_"]["stride_"]), LONGEST, "bytes of a chunk of records")
        per_chunk = stride // layout.sizeof
        directory = number(table["directory_"])
        for chunk in range(limited(number(table["chunks_"]), LONGEST, "chunks of records") if directory else 0):
            slots = int.from_bytes(memory(directory + chunk * self.word, self.word), "little")
            if slots == 0:
                continue
            data = memory(slots, per_chunk * layout.sizeof)
            for start in range(0, len(data), layout.sizeof):
                if layout.number(data, start, "sequence_low") and layout.number(data, start, "cache"):
                    yield Record(layout, bits, data, start)

    def object_of(self, one, record):
        base, unit = int(one["base"]), int(one["unit"])
        return base + ((record.object - base // unit) & self.address_mask()) * unit

    def compressed(self, one, address):
        """The address of an object as its record has it."""
        return address // int(one["unit"]) & self.address_mask()

    @staticmethod
    def address_mask():
        return (1 << 8 * gdb.lookup_type("qm::trace::RecordSlot")["object"].type.sizeof) - 1

    def entry(self, handle):
        """The handle, id, owner, flags, pcs, children and count of a stack; None if there is no such stack."""
        if handle < self.first_stack:
            return None
        layout = self.stack_layout
        wide = (1 << 8 * self.word) - 1
        region = number(self.tracer["stacks"]["directory_"][handle >> self.region_log2])
        place = region - 1 + handle * self.handle_unit & wide
        data = memory(place, layout.sizeof)
        entry = {name: layout.number(data, 0, name) for name in ("id", "owner", "flags", "counted", "depth")}
        entry["children"] = struct.unpack_from("<4I", data, layout.members["children"][0])
        low = int(self.tracer["ranges_"]["plain"]["low"])
        frames = struct.unpack("<%di" % entry["depth"], memory(place + layout.sizeof, 4 * entry["depth"]))
        entry.update(handle=handle, pcs=[(low + frame) & wide for frame in frames])
        return entry

    def stacks(self):
        depot = self.tracer["stacks"]
        seen, waiting = set(), [number(depot["root_"])]
        while waiting:
            handle = waiting.pop()
            if handle == 0:
                continue
            entry = self.entry(handle) if handle not in seen else None
            if entry is None:
                print("note: the tree of stacks is none: memory is damaged")
                continue
            seen.add(handle)
            yield entry
            waiting.extend(reversed(entry["children"]))

    def context(self, ident):
        if ident == 0:
            return "?"
        contexts = self.tracer["contexts"]
        if ident > number(contexts["used_"]):
            return ""
        kind = gdb.lookup_type("qm::trace::ContextSlot").pointer()
        slot = gdb.Value(number(contexts["directory_"][ident // PART_SLOTS])).cast(kind)[ident % PART_SLOTS]
        length = min(int(slot["length"]), slot["text"].type.sizeof)
        return memory(int(slot["text"].address), length).decode("ascii", "replace")

    def print_record(self, one, record):
        where = address_text(self.object_of(one, record))
        print("Obj %s, from hart %d %s:\n----" % (where, record.hart, self.context(record.context)))
        stack = self.entry(record.stack)
        pcs = stack["pcs"] if stack else []
        for at, pc in enumerate(pcs):
            found = self.names.find(pc - 1)
            print("#%02d [<%s>] in %s" % (at + 1, address_text(pc), found[0] if found else "(null)"))
        truncated = stack is None or stack["flags"] & self.truncated != 0
        if truncated:
            print("#%02d [<...>] in ... (truncated)" % (len(pcs) + 1))
        print("")
        return truncated

    def record_of(self, source, address):
        one = self.of(source) if self.ready else None
        if one is None:
            return None, None
        for record in self.records():
            if record.cache == int(one["number"]) and self.object_of(one, record) == address:
                return one, record
        return one, None


# ---- commands --------------------------------------------------------------------------------------------------------


def named(sources, pattern):
    pattern = name_in(pattern)
    found = [source for source in sources if matches(pattern, name_of(source))]
    if not sources:
        raise gdb.GdbError("no caches and arenas are there: is there a target, and has it booted?")
    if not found:
        raise gdb.GdbError("No such slab %s" % pattern)
    return found


def print_caches(pattern):
    shown = named(caches(), pattern)
    for cache in shown:
        view = CacheView(cache)
        stats = view.stats()
        depot, magazine_rounds, empty, full, changes = view.depot, 0, 0, 0, 0
        if view.has_magazines:
            magazine_rounds = int(gdb.parse_and_eval("qm::kMagazineRounds")[number(depot["step_"])])
            full, empty = (int(depot["count_"][at]["now"]) for at in range(2))
            changes = number(depot["changes_"])
        print("\nKmem_cache: %s\n---------------------" % name_of(cache))
        print("Source: %s" % name_of(view.slabs["source_"].dereference()))
        print("Objsize (incl align): %d" % view.object_size())
        print("Align: %d" % (1 << int(view.slabs["alignment_log2_"])))
        print("Nr unallocated in slab layer: %d" % stats["in_slabs"])
        print("Nr allocated from slab layer: %d" % stats["out"])
        print("Depot magsize: %d" % magazine_rounds)
        print("Nr empty mags: %d" % empty)
        print("Nr non-empty mags: %d" % full)
        print("High water: %d" % int(view.slabs["out_high_"]))
        print("Failures: %d, refused frees %d" % (stats["failures"], stats["misuses"]))
        print("Nr slabs: %d, %d bytes each" % (int(view.slabs["slabs_"]), print_slab_bytes(view)))
        print("Nr in use: %d" % stats["in_use"])
        print("Nr idle in magazines: %d" % stats["in_magazines"])
        print("Nr idle in depot: %d" % stats["in_depot"])
        print("Nr idle in slabs: %d" % stats["in_slabs"])
        print("Magazine misses: %d" % stats["misses"])
        print("Magsize changes: %d" % changes)
        print("Limit: %s" % (stats["limit"] or "none"))
        held = ", %d in it" % stats["reserved"] if stats["reserved"] != stats["reserve"] else ""
        print("Reserve: %d%s" % (stats["reserve"], held))
        if stats["quarantine"] != 0:
            print("Quarantine: %d bytes, %d in it, %d left it" % (
                stats["quarantine"], stats["quarantined"], stats["passed"]))
    print("caches %d: complete" % len(shown))


def print_slab_bytes(view):
    """SlabLayer::bytes_of() for a complete slab."""
    if bool(view.slabs["no_touch_"]):
        return int(view.slabs["objects_"]) * int(view.slabs["stride_"])
    return view.slab_bytes()


def print_traces(pattern):
    trace = Trace()
    if not pattern:
        raise gdb.GdbError("usage: qm traces NAME")
    sources = named(caches() + arenas(), pattern)
    if not is_glob(pattern) and bool(sources[0]["no_trace_"]):
        raise gdb.GdbError("Unable to trace slab %s" % pattern)
    for source in sources:
        one = trace.of(source) if trace.ready else None
        if is_glob(pattern) and (bool(source["no_trace_"]) or one is None):
            continue
        print("Dumping outstanding allocs from %s\n-------------------------" % name_of(source))
        number_of = 0 if one is None else int(one["number"])  # no record has the number 0
        mine = sorted((r for r in trace.records() if r.cache == number_of), key=lambda r: r.sequence)
        truncated = sum(1 for record in mine if trace.print_record(one, record))
        state = trace.state(source)
        if one is None:
            print("note: never traced")
        elif state != "on":
            print("note: %s, so later allocations are not recorded" % state)
        none = {"recorded": 0, "left_out": 0, "dropped": [], "lost_stacks": 0, "lost_contexts": 0}
        sums = trace.figures(one) if one is not None else none
        every = number(one["every"]) if one is not None else 1
        counted = number(source["live_records"]) if every == 0 else 0
        if every == 0:
            print("note: only counts are kept: %s out, by slab_stacks" % counted_as(counted, "object is", "objects are"))
        elif sums["left_out"]:
            print("note: sampled: 1 of %d allocations has a record, %d were left out" % (every, sums["left_out"]))
        for reason, dropped in enumerate(sums["dropped"]):
            if dropped:
                print("note: dropped %d: %s" % (dropped, Trace.REASONS[reason]))
        if sums["lost_stacks"]:
            print("note: %s without a stack: the stack depot is full" % counted_as(sums["lost_stacks"], "record", "records"))
        if sums["lost_contexts"]:
            print("note: %s without a context" % counted_as(sums["lost_contexts"], "record", "records"))
        lacking = sum(sums["dropped"]) or truncated or sums["lost_stacks"] or sums["left_out"]
        whole = one is not None and every != 0 and not lacking
        print("outstanding %d, recorded %d, dropped %d, truncated stacks %d, from before start %d: %s" % (
            len(mine) + counted, sums["recorded"], sum(sums["dropped"]), truncated,
            Trace.from_before_start(one, source) if one is not None else 0, "complete" if whole else "incomplete"))


class StackSums:
    """The live objects and bytes of each stack, by its id: those with records and those that are only counted. Entries
    with one id are one stack, and the oldest of them represents it."""

    def __init__(self, trace, ones, owners, whole):
        self.rows, self.by_id, self.speaks = {}, {}, {}
        self.every_of = {int(one["number"]): number(one["every"]) for one in ones}
        size_of = {int(one["number"]): number(one["object_size"]) for one in ones}
        for entry in trace.stacks() if trace.ready else []:
            self.speaks[entry["handle"]] = entry
            self.by_id.setdefault(entry["id"], []).append(entry)
            if entry["owner"] != 0 and (whole or entry["owner"] in owners):
                self.add(entry["id"], entry["counted"], entry["counted"] * size_of.get(entry["owner"], 0))
        self.lost_objects = sum(number(one["counted_bare"]) for one in ones)
        self.lost_bytes = sum(number(one["counted_bare"]) * number(one["object_size"]) for one in ones)
        for record in trace.records():
            if record.cache not in owners:
                continue
            weight = max(1, self.every_of[record.cache])
            if record.stack < trace.first_stack:
                self.lost_objects += weight
                self.lost_bytes += weight * record.size
            elif record.stack in self.speaks:  # else the chain is damaged
                self.add(self.speaks[record.stack]["id"], weight, weight * record.size)

    def add(self, ident, objects, size):
        row = self.rows.setdefault(ident, [0, 0])
        row[0] += objects
        row[1] += size

    def largest_first(self):
        return sorted(self.rows, key=lambda i: (-self.rows[i][1], -self.rows[i][0], -self.by_id[i][0]["handle"]))

    def print(self, trace, ident, sign=""):
        entry = self.by_id[ident][0]
        for pc in entry["pcs"]:
            found = trace.names.find(pc - 1)
            print(" " + (name_text(found[0], found[1] + 1, found[2]) if found else address_text(pc)))
        if entry["flags"] & trace.truncated:
            print(" ... (truncated)")
        collided = " (collided)" if entry["flags"] & trace.collided else ""
        objects, size = self.rows[ident]
        print("stack_count: %s%d\nstack_bytes: %s%d\nstack_id: 0x%08x%s\n" % (sign, objects, sign, size, ident, collided))

    def print_notes(self, trace, on, idents):
        """What the figures of these stacks lack, if the traces of the sources with the numbers in @p on are on. @returns
        whether they lack nothing."""
        if self.lost_objects:
            print("note: %s, %d bytes without a stack: the stack depot is full" % (
                counted_as(self.lost_objects, "object", "objects"), self.lost_bytes))
        sampled = sum(1 for owner in on if self.every_of[owner] > 1)
        if sampled:
            print("note: %s are estimates" % counted_as(sampled, "cache is sampled: its figures", "caches are sampled: theirs"))
        counting = sum(1 for owner in on if self.every_of[owner] == 0)
        if counting:
            print("note: %s counts only: bytes are of whole objects" % counted_as(counting, "cache keeps", "caches keep"))
        flags = [(self.by_id[ident][0]["flags"], self.rows[ident][0]) for ident in idents]
        truncated = sum(1 for flag, objects in flags if objects and flag & trace.truncated)
        if truncated:
            print("note: %s truncated" % counted_as(truncated, "stack is", "stacks are"))
        collided = sum(1 for flag, _ in flags if flag & trace.collided)
        if collided:
            print("note: %s is another stack's" % counted_as(
                collided, "stack has another id, as its own", "stacks have another id, as theirs"))
        return not self.lost_objects and not sampled and not truncated


def print_stacks(pattern):
    trace = Trace()
    every = caches() + arenas()
    picked = named(every, pattern)
    ones = [trace.of(source) for source in picked]
    ones = [one for one in ones if one is not None]
    owners = {int(one["number"]) for one in ones}
    dropped = sum(sum(trace.figures(one)["dropped"]) for one in ones)
    if pattern and not is_glob(pattern):
        state = trace.state(picked[0])
        if not ones:
            print("note: never traced")
        elif state != "on":
            print("note: %s, so later allocations are not recorded" % state)
    sums = StackSums(trace, ones, owners, not pattern)
    rows = sums.rows
    on = trace.numbers_on(picked)
    try:
        threshold = int(static("threshold", namespace="qm::console::commands"))
    except gdb.GdbError:
        threshold = 1  # an image without the console
    hidden = [ident for ident in rows if rows[ident][0] < threshold]
    shown = 0
    for ident in sums.largest_first():
        if rows[ident][0] < threshold:
            continue
        shown += 1
        sums.print(trace, ident)
    whole = sums.print_notes(trace, on, rows)
    hidden_objects = sum(rows[ident][0] for ident in hidden)
    if hidden_objects:
        print("note: %s, %d bytes in hidden stacks" % (counted_as(hidden_objects, "object", "objects"), sum(rows[ident][1] for ident in hidden)))
    traced = sum(1 for source in every if trace.state(source) != "off")
    complete = ones and not dropped and whole
    print("stacks %d, hidden %d (threshold %d), objects %d, bytes %d, dropped %d, not traced %d caches: %s" % (
        shown, len(hidden), threshold, sum(row[0] for row in rows.values()) + sums.lost_objects,
        sum(row[1] for row in rows.values()) + sums.lost_bytes, dropped, len(every) - traced,
        "complete" if complete else "incomplete"))


def address_of(text, names):
    """The value of a GDB expression if it is a number or a pointer, else its address; or the address of a function in
    the image's table, which reports print as NAME+0xOFFSET/0xSIZE."""
    printed = re.fullmatch(r"(.*[^+])\+(0x[0-9a-f]+)/0x[0-9a-f]+", text)
    name, offset = (printed.group(1), int(printed.group(2), 16)) if printed else (text, 0)
    start = names.start(name)
    if start is not None:
        return start + offset
    # Without quotes GDB takes some names of namespaces for types.
    symbol = gdb.lookup_global_symbol(name)
    value = symbol.value() if symbol is not None else gdb.parse_and_eval(name)
    if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        value = value.referenced_value()
    lies = (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY)
    if value.type.strip_typedefs().code in lies:
        value = value.address
    return int(value) + offset


def image_address(name):
    """The address of a symbol of the image; 0 if it has none of this name."""
    try:
        return int(gdb.parse_and_eval("(unsigned long)&" + name))
    except gdb.error:
        return 0


def print_taker(site):
    """Prints the call site, given by its address, that allocated a live object, if the build has call sites and the
    site is known."""
    kind = gdb.lookup_type("qm::CallSite")
    site -= site % kind.alignof  # the bits below hold a flag
    if site == 0 or site == image_address("qm_untagged_site"):
        return
    site = gdb.Value(site).cast(kind.pointer())
    print("  taken at " + site_text(site))


def site_text(site):
    """A call site in the form of Linux's allocinfo: FILE:LINE [MODULE] func:NAME."""
    module = "[%s] " % text_of(site["module"]) if int(site["module"]) else ""
    untagged = int(site) == image_address("qm_untagged_site")
    file, function = ("<untagged>",) * 2 if untagged else (text_of(site["file"]), text_of(site["function"]))
    return "%s:%d %sfunc:%s" % (file, int(site["line"]), module, function)


def site_of_object(cache, address):
    """The address of the call site that an object of a cache is charged to; 0: no site."""
    first = image_address("__start_qm_call_sites")
    if first == 0 or int(cache["charge_"]["amount_"]) == 0:
        return 0
    head = gdb.lookup_type("qm::ChargeHead").pointer()
    tag = number((gdb.Value(address).cast(head) - 1)["tag"])
    bytes_of_site = gdb.lookup_type("qm::CallSite").sizeof
    site = first + (tag // bytes_of_site - 1) * bytes_of_site
    return site if tag >= bytes_of_site and site < image_address("__stop_qm_call_sites") else 0


def tags(arena):
    """The boundary tags of an arena, spans included, in address order."""
    ends = arena["ends_"]

    def following(tag):
        while int(tag) not in (0, int(ends.address)):
            yield tag
            tag = tag["next"]

    return bounded(following(ends["next"]), "segments of %s" % name_of(arena))


def segments(arena):
    """For each segment: start, size, a word for its state, whether a user holds it, and the address of its call
    site."""
    owners = {constant("qm::SegmentOwner", name): text for name, text in (
        ("kUser", "allocated"), ("kSlabs", "extent of slabs"), ("kQuantumCache", "slab of a quantum cache"),
        ("kTagPool", "boundary tags"))}
    user = constant("qm::SegmentOwner", "kUser")
    free, allocated, span = (constant("qm::TagKind", name) for name in ("kFree", "kAllocated", "kSpan"))
    for tag in tags(arena):
        kind = int(tag["kind"])
        if kind != span:
            owner = int(tag["owner"])
            held = kind == allocated and owner == user
            yield int(tag["start"]), int(tag["size"]), "free" if kind == free else owners[owner], held, int(tag["site"])
        elif int(arena["blocks_"]):
            yield from blocks(int(tag["start"]), int(tag["size"]))


def blocks(start, size):
    """The same for a span of blocks, up to a header that is not valid."""
    header_type = gdb.lookup_type("qm::BlockHeader")
    header_bytes, note_bytes = header_type.sizeof, gdb.lookup_type("qm::BlockNote").sizeof
    unit, flag_bits = (constant("qm::BlockHeader", name) for name in ("kUnit", "kFlagBits"))
    least = constant("qm::Blocks", "kLeast")
    free, with_note = (constant("qm::BlockFlag", name) for name in ("kFree", "kNoted"))
    end = start + size - header_bytes
    at = start + header_bytes
    while at < end:
        word = int(gdb.Value(at).cast(header_type.pointer())["word"])
        bytes_of_block = (word >> flag_bits) * unit
        if not least <= bytes_of_block <= end - at:
            return
        noted = word & (free | with_note) == with_note
        usable = bytes_of_block - header_bytes - (note_bytes if noted else 0)
        note = gdb.Value(at + bytes_of_block - note_bytes).cast(gdb.lookup_type("qm::BlockNote").pointer())
        yield (at + header_bytes, usable, "free" if word & free else "allocated", not word & free,
               int(note["site"]) if noted else 0)
        at += bytes_of_block


def print_whatis(text):
    if not text:
        raise gdb.GdbError("usage: qm whatis ADDRESS|NAME")
    trace = Trace()
    address = address_of(text, trace.names) % (1 << 8 * gdb.lookup_type("char").pointer().sizeof)
    found_caches = found_arenas = 0
    every = named(caches(), "")
    of_quanta = constant("qm::Cache", "kOfQuanta")
    for kind in (0, of_quanta):
        for cache in every:
            if int(cache["flags_"]) & of_quanta != kind:
                continue
            view = CacheView(cache)
            slab = view.slab_of(address)
            if slab is None:
                continue
            found_caches += 1
            start, stride, objects = int(slab["start"]), int(view.slabs["stride_"]), int(slab["objects"])
            index = (address - start) // stride
            in_header = not bool(view.slabs["no_touch_"]) and address >= view.bitmap(slab)[0]
            if in_header or not 0 <= index < objects:
                part = "header of the slab" if in_header else "unused part of the slab"
                print("cache %s: slab %s %s %d, %s" % (name_of(cache), address_text(start), "+-"[address < start],
                                                       abs(address - start), part))
                continue
            where = start + index * stride
            whereabouts = view.whereabouts(slab, index, where)
            print("cache %s: object %s + %d, %s\n  %d of %d in slab %s" % (
                name_of(cache), address_text(where), address - where, whereabouts,
                index + 1, objects, address_text(start)))
            if whereabouts == "in use":
                print_taker(site_of_object(cache, where))
            one, record = trace.record_of(cache, where)
            if record is not None:
                trace.print_record(one, record)
    for arena in arenas():
        for start, size, what, held, site in segments(arena):
            if not start <= address < start + size:
                continue
            found_arenas += 1
            print("arena %s: segment %s + %d\n  %d bytes, %s" % (
                name_of(arena), address_text(start), address - start, size, what))
            if held:
                print_taker(site)
            one, record = trace.record_of(arena, start) if held else (None, None)
            if record is not None:
                trace.print_record(one, record)
            break
    symbol = trace.names.find(address)
    if symbol:
        print(("code " if address < trace.names.text_end or not trace.names.starts else "variable ") + name_text(*symbol))
    print("whatis %s: caches %d, arenas %d: complete" % (address_text(address), found_caches, found_arenas))


# ---- totals ----------------------------------------------------------------------------------------------------------


def arena_stats(arena):
    """Figures of an arena, as Arena::stats() has them."""
    counts = arena["counts_"]
    total, allocated = int(counts["total"]), int(counts["allocated"])
    return {"total": total, "allocated": allocated, "free": total - allocated, "high_water": int(counts["high_water"]),
            "allocations": int(counts["allocations_ever"]), "frees": int(counts["frees_ever"]),
            "failures": int(counts["failures"])}


def root_of(arena):
    """The root of an arena: the last of its chain of sources."""
    for _ in range(MOST_HARTS):
        source = arena["source_"]
        if int(source) in (0, int(arena.address)):
            return arena
        arena = source.dereference()
    raise gdb.GdbError("the sources of %s do not end: memory is damaged" % name_of(arena))


def base_arena():
    """The arena that refills the boundary tags."""
    for arena in arenas():
        if bool(arena["refills_tags_"]):
            return arena
    raise gdb.GdbError("no caches and arenas are there: is there a target, and has it booted?")


def idle_in_extents(base):
    """Bytes of the extents' pages that belong to no slab; the upper bits of `pages` have another meaning."""
    idle = 0
    all_pages, pages = (constant("qm::Extents", name) for name in ("kAllPages", "kPages"))
    allocated, slabs = constant("qm::TagKind", "kAllocated"), constant("qm::SegmentOwner", "kSlabs")
    for tag in tags(base):
        if int(tag["kind"]) == allocated and int(tag["owner"]) == slabs:
            idle += bin(int(tag["pages"]) & all_pages).count("1") * (int(tag["size"]) // pages)
    return idle


def print_free(text):
    if text:
        raise gdb.GdbError("usage: qm free")
    base = base_arena()
    stats = arena_stats(base)
    mine = [arena for arena in arenas() if root_of(arena).address == base.address]
    idle = sum(idle_in_extents(arena) if arena.address == base.address else arena_stats(arena)["free"] for arena in mine)
    of_base = [cache for cache in caches() if root_of(cache["slabs_"]["source_"].dereference()).address == base.address]
    for cache in of_base:
        view = CacheView(cache)
        held = view.stats()
        idle += (held["total"] - held["in_use"]) * print_slab_bytes(view) // int(view.slabs["objects_"])
    largest = max([size for _, size, what, _, _ in segments(base) if what == "free"], default=0)
    amounts = (("total", stats["total"]), ("used", stats["allocated"]), ("free", stats["free"]), ("idle", idle),
               ("least free", stats["total"] - stats["high_water"]), ("largest", largest))
    print("bytes" + "".join("%12s" % name for name, _ in amounts))
    print("     " + "".join("%12d" % amount for _, amount in amounts))
    print("caches %d, arenas %d: complete" % (len(of_base), len(mine)))


def print_kmemstat(pattern):
    """Each byte that users hold is in one line: that of a cache that is not a quantum cache, or that of an arena from
    which only users allocate."""
    pattern = name_in(pattern)
    base = base_arena()
    of_quanta = constant("qm::Cache", "kOfQuanta")
    lines = []
    every = caches()
    for cache in every:
        if int(cache["flags_"]) & of_quanta or not matches(pattern, name_of(cache)):
            continue
        view = CacheView(cache)
        stats, size = view.stats(), view.object_size()
        lines.append((name_of(cache), size, stats["in_use"] * size, (stats["total"] - stats["in_use"]) * size,
                      stats["allocations"], stats["failures"]))
    for arena in arenas():
        if not matches(pattern, name_of(arena)) or root_of(arena).address != base.address or number(arena["importers_"]):
            continue
        stats = arena_stats(arena)
        lines.append((name_of(arena), int(arena["quantum_"]), stats["allocated"], stats["free"], stats["allocations"],
                      stats["failures"]))
    if not lines:
        raise gdb.GdbError("No such slab %s" % pattern)
    print("%-30s %8s %10s %10s %10s used %9s fail" % ("bytes", "size/B", "in use", "idle", "total", "allocs"))
    lines.append(("total", None) + tuple(sum(line[i] or 0 for line in lines) for i in range(2, 6)))
    for name, size, used, idle, allocations, failures in lines:
        print("%-30s %8s %10d %10d %10d %3d%% %9s %4d" % (
            name, "" if size is None else size, used, idle, used + idle,
            used * 100 // (used + idle) if used + idle else 0, "-" if allocations is None else allocations, failures))
    print("shown %d of %d: complete" % (len(lines) - 1, len(lines) - 1))


def site_rows():
    """For each call site: the site, bytes, calls, the bytes that were not requested, and whether these figures are
    complete."""
    first, stop = image_address("__start_qm_call_sites"), image_address("__stop_qm_call_sites")
    if first == 0:
        raise gdb.GdbError("this build has no call sites (QM_CALL_SITES)")
    kind, counts = gdb.lookup_type("qm::CallSite"), Layout("qm::SiteCounts")
    count = limited((stop - first) // kind.sizeof, LONGEST, "call sites")
    word, waste = counts.type["words"].type.target().sizeof, counts.type["wastes"].type.target().sizeof
    harts_here = limited(int(static("word_harts", namespace="qm::call_sites")), MOST_HARTS, "harts")
    table = int(static("all_words", namespace="qm::call_sites"))
    row_bytes = counts.sizeof
    line = constant("qm::SiteCounts", "kLine")
    hart_bytes = ((count + 1) * row_bytes + line - 1) // line * line
    pointer = gdb.lookup_type("char").pointer().sizeof
    kind_of_word = counts.type["words"].type.target().strip_typedefs()
    shared = "kCallShift" in [field.name for field in kind_of_word.fields()]
    shift = constant(kind_of_word.name, "kCallShift") if shared else None
    tables = [memory(table + hart * hart_bytes, hart_bytes) for hart in range(harts_here)]

    def sums(start):
        """The sum over all harts of one word: calls above bytes in 64 bits, or two words of 32 bits."""
        parts = [(int.from_bytes(data[start : start + 4], "little"), int.from_bytes(data[start + 4 : start + 8], "little"))
                 for data in tables]
        if shift is None:
            return sum(calls for calls, _ in parts) & 0xFFFFFFFF, sum(size for _, size in parts) & 0xFFFFFFFF
        both = sum(low | high << 32 for low, high in parts) & 0xFFFFFFFFFFFFFFFF
        return both >> shift, both & (1 << shift) - 1

    for index in range(count):
        start = (index + 1) * row_bytes
        words, wastes = start + counts.members["words"][0], start + counts.members["wastes"][0]
        calls, size = sums(words)
        lost = sum(int.from_bytes(data[wastes : wastes + pointer], "little") for data in tables)
        lost &= (1 << 8 * pointer) - 1
        yield at(first + index * kind.sizeof, "qm::CallSite").address, size, calls, lost, sums(words + word) == (0, 0)


def print_allocinfo(text):
    rows = list(site_rows())
    top = int(gdb.parse_and_eval(text)) if text else len(rows)
    if top < 0:
        raise gdb.GdbError("usage: qm allocinfo [NUMBER]")
    shown = sorted((row for row in rows if row[1] or row[2] or not row[4]), key=lambda row: (-row[1], -row[2]))[:top]
    print("allocinfo - version: 2.0\n#     <size>  <calls> <tag info>")
    for site, size, calls, lost, accurate in shown:
        print("%12d %8d %s%s%s" % (size, calls, site_text(site), " requested:%d" % (size - lost) if lost else "",
                                   "" if accurate else " accurate:no"))
    untagged = sum(row[1] for row in rows if int(row[0]) == image_address("qm_untagged_site"))
    on = number(static("on", namespace="qm::call_sites")) != 0
    print("# sites %d of %d, bytes %d of %d, untagged %d, state %s: complete" % (
        len(shown), len(rows), sum(row[1] for row in shown), sum(row[1] for row in rows), untagged, "on" if on else "off"))


def marks():
    """The marks that were set on the console, oldest first."""
    first = static("first_mark", namespace="qm::trace")

    def following(mark):
        while int(mark) != 0:
            yield mark
            mark = mark["next"]

    return [mark.dereference() for mark in bounded(following(first), "marks")]


class MarkView:
    """The data behind a mark: see trace/include/qm/trace/marks.hpp."""

    def __init__(self, mark):
        self.name = text_of(mark["name"].address)
        start = int(mark.address) + mark.type.sizeof
        self.sites, start = self.rows(mark, "site_count", "qm::trace::SiteThen", ("bytes", "calls"), start)
        kind = gdb.lookup_type("qm::trace::SourceThen")
        count = limited(int(mark["source_count"]), LONGEST, "caches and arenas of a mark")
        self.sources = {}
        for index in range(count):
            then = at(start + index * kind.sizeof, "qm::trace::SourceThen")
            self.sources[text_of(then["name"].address)] = (
                int(then["holding"]["objects"]), int(then["holding"]["amount"]),
                *(int(then[name]) for name in ("dropped", "adopted", "changes")))
        self.stacks, _ = self.rows(mark, "stack_count", "qm::trace::StackThen", ("handle", "objects", "bytes"),
                                   start + count * kind.sizeof)

    @staticmethod
    def rows(mark, count, type_name, names, start):
        layout = Layout(type_name)
        size = limited(int(mark[count]), LONGEST, "rows of a mark") * layout.sizeof
        data = memory(start, size) if size else b""
        found = [tuple(layout.number(data, place, name) for name in names) for place in range(0, size, layout.sizeof)]
        return found, start + size


def print_growth(text):
    """Prints the growth since a mark; without a mark, everything that is in use. The age of the mark is not printed: the
    clock is not in memory."""
    found = [mark for mark in (marks() if text else []) if text_of(mark["name"].address) == text]
    if text and not found:
        raise gdb.GdbError("No such mark %s" % text)
    mark = MarkView(found[0]) if found else None
    rows, own, known = [], [], 0
    for source in named(caches() + arenas(), ""):
        name = name_of(source)
        if source.type.name == "qm::Cache":
            view = CacheView(source)
            objects = view.stats()["in_use"]
            kind, size = "S", objects * view.object_size()
        else:
            counts = source["counts_"]
            objects = int(counts["allocations_ever"]) - int(counts["frees_ever"]) - int(source["slab_segments_"])
            kind, size = "A", int(counts["allocated"])
        then = mark.sources.get(name) if mark else None
        known += then is not None
        objects_more, more = objects - (then[0] if then else 0), size - (then[1] if then else 0)
        if more < 0 or more == 0 and objects_more <= 0:
            continue
        mine = own if name.startswith("kmem_") or name == "ktrace" else rows
        mine.append((name, kind, size, more, objects_more))
    print("%-30s:Typ:      Alloc Amt:         Growth:     Objects\n%s" % ("Arena/Slab Name", "-" * 79))
    for row in sorted(rows, key=lambda row: (-row[3], -row[4])):
        print("%-30s: %s :%15d:%15d:%12d" % row)
    if own:
        print("note: %d of the allocator's own grew by %d together, left out" % (len(own), sum(row[3] for row in own)))
    print("")
    if mark and known < len(mark.sources):
        print("note: %s gone" % counted_as(len(mark.sources) - known, "cache or arena of then is",
                                           "caches and arenas of then are"))
    sites = []
    try:
        for index, (site, size, calls, _, _) in enumerate(site_rows()):
            then = mark.sites[index] if mark and index < len(mark.sites) else (0, 0)
            more, calls_more = size - then[0], calls - then[1]
            if more > 0 or more == 0 and calls_more > 0:
                sites.append((site, more, calls_more))
    except gdb.GdbError:
        pass  # a build without call sites
    if sites:
        print("#     <size>  <calls> <tag info>")
        for site, more, calls in sorted(sites, key=lambda row: (-row[1], -row[2])):
            print("%+12d %+8d %s" % (more, calls, site_text(site)))
        print("")
    trace = Trace()
    stacks, stacks_whole = print_grown_stacks(trace, mark) if trace.ready else (0, True)
    every, whole, dropped, covered = print_coverage(trace, mark)
    print("growth %s: %d caches, %d arenas, %d stacks\ntraced %d of %d caches, dropped %d: %s" % (
        mark.name if mark else "since boot", sum(1 for row in rows if row[1] == "S"),
        sum(1 for row in rows if row[1] == "A"), stacks, whole, every, dropped,
        "complete" if covered and stacks_whole else "incomplete"))


def print_coverage(trace, mark):
    """As trace::coverage_since(), and its notes. @returns the number of all sources, and of those recorded all the time,
    the allocations without a record, and whether each object of a traced source has one."""
    every = whole = partial = thin = dropped = 0
    for source in caches() + arenas():
        every += 1
        one = trace.of(source) if trace.ready else None
        if one is None or not number(one["traced"]):
            continue
        word = number(source["state_"])
        is_thin = word & constant("qm::Traceable", "kThinned") != 0
        recording = word & constant("qm::Traceable", "kRecorded") != 0 and not is_thin
        thin += is_thin
        if mark is None:
            whole += recording
            dropped += sum(trace.figures(one)["dropped"])
            continue
        then = mark.sources.get(name_of(source))
        adopted = number(one["adopted"])
        unchanged = number(one["changes"]) == (then[4] if then else adopted)
        if recording and unchanged:
            whole += 1
        elif recording or not unchanged:
            partial += 1
        if recording or is_thin or not unchanged:
            dropped += trace.dropped_ever(one) - (then[2] if then and then[3] == adopted else 0)
    if whole + partial + thin == 0:
        print("note: nothing is traced")
    if thin:
        print("note: %s sampled or only counted" % counted_as(thin, "cache is", "caches are"))
    if partial:
        print("note: %s not traced all the time, or reset" % counted_as(partial, "cache was", "caches were"))
    return every, whole, dropped, whole != 0 and partial + thin + dropped == 0


def print_grown_stacks(trace, mark):
    """@returns the number of stacks that grew, and whether their figures lack nothing."""
    ones = [one for one in (trace.of(source) for source in caches() + arenas()) if one is not None]
    sums = StackSums(trace, ones, {int(one["number"]) for one in ones}, True)
    for handle, objects, size in mark.stacks if mark else []:
        if handle in sums.speaks:
            sums.add(sums.speaks[handle]["id"], -objects, -size)
    grown = [i for i in sums.largest_first() if sums.rows[i][1] > 0 or sums.rows[i][1] == 0 and sums.rows[i][0] > 0]
    for ident in grown:
        sums.print(trace, ident, "+")
    return len(grown), sums.print_notes(trace, trace.numbers_on(caches() + arenas()), grown)


# ---- the leak scan ---------------------------------------------------------------------------------------------------


class LeakScan:
    """As qm::LeakScan: alloc/src/scan/. Its roots are those of the repository's boot code, or without that all writable
    sections of the image; and the registers of all threads. A stack counts from a thread's or a saved stack pointer on.
    If none is known, as in raw memory for running tasks, all of it counts, but of a stack in no section nothing."""

    GRANULE = 8

    def __init__(self):
        self.word = gdb.lookup_type("char").pointer().sizeof
        self.trace = Trace()
        self.page = constant("qm::PageMap", "kPageBytes")
        self.regions = self.memory_regions()
        self.low, self.high = min(low for low, _ in self.regions), max(high for _, high in self.regions)
        self.base = int(base_arena().address)
        self.objects = {}  # start: (end, owner, kind, the address of an arena's call site)
        self.roots, self.pointers, self.held = [], [], []
        self.stacks = []  # (low, high, stack pointer)
        self.not_judged = self.words = self.references = 0
        self.views = [CacheView(cache) for cache in caches(hidden=True)]
        self.arenas = arenas(hidden=True)
        self.find_containers()
        for view in self.views:
            self.enter_cache(view)
        for arena in self.arenas:
            self.enter_arena(arena)
        self.leave_out_idle()
        self.starts = sorted(self.objects)
        self.firmware_roots()
        self.mark()

    # -- which objects are live

    def memory_regions(self):
        pages = at(image_address("qm_page_map"), "qm::PageMap")
        found = [(int(region["low"]), int(region["low"]) + int(region["bytes"]))
                 for region in (pages["regions_"][at] for at in range(limited(number(pages["region_count_"]), 64, "memory regions")))]
        if not found:
            raise gdb.GdbError("no memory was given to the allocator: has the target booted?")
        own = static("own_pages")
        if int(own["start"]) + int(own["size"]) == found[0][0]:
            found[0] = (int(own["start"]) - self.page, found[0][1])
        return found

    def covers(self, address):
        return any(low <= address < high for low, high in self.regions)

    def is_of_base(self, arena):
        return int(root_of(arena).address) == self.base

    def find_containers(self):
        """Slabs and spans: (start, arena), the arena's segment there holds others' objects."""
        self.containers = set()
        span = constant("qm::TagKind", "kSpan")
        for view in self.views:
            for slab in view.all_slabs():
                no_touch = bool(view.slabs["no_touch_"])
                start = int(slab["start"]) if no_touch else int(slab.address) + slab.type.sizeof - view.bytes_of(slab)
                self.containers.add((start, int(view.slabs["source_"])))
        for arena in self.arenas:
            source = int(arena["source_"])
            if source not in (0, int(arena.address)):
                self.containers.update((int(tag["start"]), source) for tag in tags(arena) if int(tag["kind"]) == span)

    def enter(self, start, size, owner, kind="plain", site=0):
        self.objects[start] = (start + size + self.GRANULE - 1 & -self.GRANULE, owner, kind, site)

    def enter_cache(self, view):
        cache, flags = view.cache, int(view.cache["flags_"])
        name = name_of(cache)
        own = flags & constant("qm::Cache", "kWithoutMagazines") and (bool(cache["no_trace_"]) or name == "kmem_cache")
        of_magazines = own and name.startswith("kmem_magazine")
        if own and not of_magazines:
            return
        holds_pointers = not flags & constant("qm::Cache", "kWithoutPointers") or view.slab_bytes() < self.page
        kind = "magazine" if of_magazines else "plain" if holds_pointers else "no pointers"
        may_hold_others = flags & constant("qm::Cache", "kOfQuanta")
        source, of_base = int(view.slabs["source_"]), self.is_of_base(view.slabs["source_"].dereference())
        size, stride = view.object_size(), int(view.slabs["stride_"])
        idle = None
        for slab in view.all_slabs():
            start = int(slab["start"])
            if of_base and (start | stride) % self.GRANULE == 0 and self.covers(start):
                for address in view.taken(slab):
                    if not may_hold_others or (address, source) not in self.containers:
                        self.enter(address, size, cache, kind)
            elif not bool(view.slabs["no_touch_"]) and not own:
                if idle is None:
                    idle = {one for _, objects in view.magazines() for one in objects} | set(view.quarantined())
                for address in view.taken(slab):
                    if address not in idle:
                        self.not_judged += 1
                        self.roots.append((address, address + size))

    def enter_arena(self, arena):
        self.pointers += [int(arena.address), int(arena["name_"]), int(arena["context_"])]
        is_base = int(arena.address) == self.base
        if bool(arena["no_trace_"]) and not is_base or not self.is_of_base(arena):
            return
        of_blocks = int(arena["blocks_"]) != 0
        for start, size, _, held, site in segments(arena):
            if not held or not of_blocks and (start, int(arena.address)) in self.containers or not self.covers(start):
                continue
            if is_base or start % self.GRANULE != 0:
                self.roots.append((start, start + size))
            else:
                self.enter(start, size, arena, site=site)

    def leave_out_idle(self):
        for view in self.views:
            self.pointers.append(int(view.cache["name_"]))
            if view.extra is not None:
                self.pointers.append(int(view.extra["context"]))
                self.held += [int(view.extra.address), number(view.extra["quarantine"])]
            for magazine, idle in view.magazines():
                self.held.append(magazine)
                for address in idle:
                    self.objects.pop(address, None)
            for address in view.quarantined():
                self.objects.pop(address, None)

    # -- roots

    def firmware_roots(self):
        registers = [self.registers_of(thread) for thread in gdb.selected_inferior().threads()]
        for _, values in registers:
            self.pointers += values
        try:
            root = static("roots", namespace="qm::scan")
        except gdb.GdbError:
            root = 0  # an image without the scan: none was declared
        while int(root) != 0:
            self.pointers.append(int(root))
            self.roots.append((int(root["start"]), int(root["start"]) + int(root["bytes"])))
            root = root["next"]
        sps = [sp for sp, _ in registers if sp]
        if image_address("__tls_blocks") and image_address("__hart_stacks_end"):
            self.roots_of_boot_code(sps)
            return
        for line in gdb.execute("maint info sections -all-objects", to_string=True).splitlines():
            told = re.search(r"(0x[0-9a-f]+)->(0x[0-9a-f]+) at .*: (\S+) (.*)", line)
            if told and "ALLOC" in told.group(4) and "READONLY" not in told.group(4):
                low, high = int(told.group(1), 16), int(told.group(2), 16)
                in_it = [sp for sp in sps if low <= sp < high] if "stack" in told.group(3) else []
                self.roots.append((min(in_it, default=low), high))
        for sp in sps:
            place = self.around(sp)
            if place is not None:
                self.stacks.append((place, self.objects[place][0], sp))
            elif not any(low <= sp < high for low, high in self.roots):
                self.roots.append((sp, self.end_of_stack(sp)))

    def end_of_stack(self, sp):
        """An end for a stack in no section: where other memory begins, or what can be read of 64 KB."""
        size = min([low - sp for low, _ in self.roots + self.regions if low > sp] + [1 << 16])
        while size > 0:
            try:
                memory(sp, size)
                break
            except gdb.MemoryError:
                size //= 2
        return sp + size

    @staticmethod
    def registers_of(thread):
        """The stack pointer and all general registers of a thread."""
        before = gdb.selected_thread()
        try:
            thread.switch()
            frame = gdb.newest_frame()
            values = [int(frame.read_register("x%d" % at)) & (1 << 8 * gdb.lookup_type("char").pointer().sizeof) - 1
                      for at in range(32)]
            return values[2], values
        except (gdb.error, ValueError):
            return 0, []
        finally:
            if before is not None:
                before.switch()

    def roots_of_boot_code(self, sps):
        """As visit_roots() of firmware/app and visit_stacks() of firmware/boot."""

        def bounds(stack):
            return int(stack["low"]), int(stack["high"])

        def see(stack, sp):
            low, high = bounds(stack)
            self.stacks.append((low, high, sp if low <= sp < high else low))

        def sp_in(stack):
            low, high = bounds(stack)
            return next((sp for sp in sps if low <= sp < high), 0)

        panicked = int(static("sp_of_panic", namespace="qm::firmware"))
        current = set()
        for hart in elements(variable("qm::firmware::hart_states")):
            task = int(hart["current"])
            if task == 0:
                continue  # never started
            current.add(task)
            task = hart["current"].dereference()
            frame = hart["innermost"]
            known = [sp_in(hart["trap_stack"]), sp_in(task["stack"])]
            if not any(known) and panicked:
                low, high = bounds(hart["trap_stack"])
                known[0 if low <= panicked < high else 1] = panicked
            if int(frame) != 0:
                see(hart["trap_stack"], known[0] or int(frame))
                while int(frame["outer"]) != 0:
                    frame = frame["outer"]
                see(task["stack"], int(frame["x"]["_M_elems"][2]))
            else:
                see(task["stack"], known[1])
            if int(hart["current"]) != int(hart["idle"].address):
                see(hart["boot_stack"], int(hart["idle"]["sp"]))
        over = {constant("qm::firmware::Task::State", name) for name in ("kFree", "kEnded")}
        taken = elements(static("task_taken", namespace="qm::firmware"))
        for task, is_taken in zip(elements(static("tasks", namespace="qm::firmware")), taken):
            if number(is_taken) and int(task["state"]) not in over and int(task["sp"]) and int(task.address) not in current:
                see(task["stack"], int(task["sp"]))
        shell = static("stack", namespace="qm::firmware")
        pool = static("stack_pool", namespace="qm::firmware")
        names = ("__data_start", "__qm_trace_data_start", "__qm_trace_data_end", "__qm_trace_bss_start", "__qm_trace_bss_end",
                 "__bss_end", "__tls_blocks", "__hart_stacks", "__hart_stacks_end", "__qm_symbols_start")
        data, trace_data, trace_data_end, trace_bss, trace_bss_end, bss_end, blocks, stacks, stacks_end, symbols = (
            image_address(name) for name in names)
        for low, high in ((data, trace_data), (trace_data_end, trace_bss), (trace_bss_end, bss_end), (blocks, stacks), (stacks_end, symbols)):
            for hole in sorted((int(one.address), int(one.address) + one.type.sizeof) for one in (shell, pool)):
                if low <= hole[0] and hole[1] <= high:
                    self.roots.append((low, hole[0]))
                    low = hole[1]
            self.roots.append((low, high))

    # -- marking

    def around(self, address):
        """The start of the live object that contains an address; None if there is none."""
        at = bisect.bisect_right(self.starts, address) - 1
        return self.starts[at] if at >= 0 and address < self.objects[self.starts[at]][0] else None

    def words_of(self, low, high):
        low, high = -(-low // self.word) * self.word, high // self.word * self.word
        if low >= high:
            return ()
        self.words += (high - low) // self.word
        return struct.unpack("<%d%s" % ((high - low) // self.word, "Q" if self.word == 8 else "I"), memory(low, high - low))

    def inner_words(self, start):
        """The words of an object that may be pointers."""
        end, _, kind, _ = self.objects[start]
        if kind == "plain":
            return self.words_of(start, end)
        if kind == "no pointers":
            return ()
        header = at(start, "qm::Magazine")
        slots = start + header.type.sizeof
        end_of_rounds = slots + int(header["rounds"]) * self.word
        return self.words_of(slots, end_of_rounds) if int(header["rounds"]) <= int(header["capacity"]) and end_of_rounds <= end else ()

    def follow(self, words, marks, exact=None):
        """Marks what the words lead to, and what that leads to. @returns the objects that were marked."""
        fresh, waiting = [], [words]
        while waiting:
            for value in waiting.pop():
                if not self.low <= value < self.high:
                    continue
                start = value if value in self.objects else self.around(value)
                if start is None:
                    continue
                self.references += 1
                if exact is not None and start == value:
                    exact.add(start)
                if start not in marks:
                    marks.add(start)
                    fresh.append(start)
                    waiting.append(self.inner_words(start))
        return fresh

    def mark(self):
        marks, exact = set(), set()
        for address in self.held + [low for low, _, _ in self.stacks]:
            start = self.around(address)
            if start is not None:
                marks.add(start)
                exact.add(start)
        for low, high in [(sp, high) for _, high, sp in self.stacks] + self.roots:
            self.follow(self.words_of(low, high), marks, exact)
        self.follow(self.pointers, marks, exact)
        live = {start: one for start, one in self.objects.items() if one[2] != "magazine"}
        self.live, self.live_bytes = len(live), sum(one[0] - start for start, one in live.items())
        self.inner_only = sorted(start for start in live if start in marks and start not in exact)
        self.inner_bytes = sum(live[start][0] - start for start in self.inner_only)
        self.scanned = self.words, self.references
        self.objects = {start: one for start, one in live.items() if start not in marks}
        self.starts = sorted(self.objects)
        self.find_groups()

    def find_groups(self):
        """The leaked objects by origin: heads, and what only they lead to."""
        stacks = {(record.cache, record.object): record.stack for record in self.trace.records()}
        candidates, marks = [], set()
        for start in self.starts:
            if start not in marks:
                marks.add(start)
                candidates.append(start)
                self.follow(self.inner_words(start), marks)
        marks = set()
        groups = {}
        for start in reversed(candidates):
            if start in marks:
                continue
            marks.add(start)
            end = self.objects[start][0]
            group = groups.setdefault(self.origin(start, stacks), [0, 0, 0, 0, []])
            under = self.follow(self.inner_words(start), marks)
            group[0] += 1
            group[1] += end - start
            group[2] += len(under)
            group[3] += sum(self.objects[one][0] - one for one in under)
            group[4].append(start)
        self.groups = sorted(groups.items(), key=lambda item: (-item[1][1] - item[1][3], min(item[1][4])))

    def origin(self, start, stacks):
        """What kind of owner, its name, the bytes of the object, its call site, and the handle of its stack."""
        end, owner, _, site = self.objects[start]
        one = self.trace.of(owner) if self.trace.ready else None
        stack = 0
        if owner.type.name == "qm::Cache":
            site = site_of_object(owner, start)
            if one is not None:
                stack = stacks.get((int(one["number"]), self.trace.compressed(one, start)), 0)
        return "cache" if owner.type.name == "qm::Cache" else "arena", name_of(owner), end - start, site, stack


def line_of(trace, entry):
    """The first frames of a stack in one line."""
    frames = []
    for pc in entry["pcs"][:LINE_FRAMES]:
        found = trace.names.find(pc - 1)
        frames.append("%s+0x%x" % (found[0], found[1] + 1) if found else address_text(pc))
    if len(entry["pcs"]) > LINE_FRAMES or entry["flags"] & trace.truncated:
        frames.append("...")
    return " < ".join(frames)


def print_findleaks(text):
    if text:
        raise gdb.GdbError("usage: qm findleaks")
    scan = LeakScan()

    def examples(starts):
        for start in sorted(starts)[:3]:
            print("  " + address_text(start))

    for (kind, name, size, site, stack), (heads, head_bytes, under, under_bytes, starts) in scan.groups:
        print("%s %s, %d bytes: heads %d, bytes %d; under them %d, bytes %d" % (kind, name, size, heads, head_bytes, under, under_bytes))
        print_taker(site)
        entry = scan.trace.entry(stack) if stack else None
        if entry is not None:
            print("  allocated by %s, stack 0x%08x" % (line_of(scan.trace, entry), entry["id"]))
        examples(starts)
    if scan.inner_only:
        print("held by pointers into them only: %s, bytes %d" % (
            counted_as(len(scan.inner_only), "object", "objects"),
            scan.inner_bytes))
        examples(scan.inner_only)
    if scan.not_judged:
        print("not judged: %s" % counted_as(scan.not_judged, "object", "objects"))
    print("live %d, bytes %d; words %d, references %d" % (scan.live, scan.live_bytes, *scan.scanned))
    leaked = sum(group[1][0] + group[1][2] for group in scan.groups)
    size = sum(group[1][1] + group[1][3] for group in scan.groups)
    print("findleaks: leaks %d, objects %d, bytes %d: complete" % (sum(group[1][0] for group in scan.groups), leaked, size))


def name_in(text):
    """The name of a cache or an arena: the text itself, or the name of the one that a GDB expression is or points
    to."""
    is_pattern = is_glob(text) and not re.match(r"\*+[$&(\w]", text)
    if not text or is_pattern or any(name_of(source) == text for source in caches() + arenas()):
        return text
    try:
        value = gdb.parse_and_eval(text)
        while value.type.strip_typedefs().code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
            value = value.referenced_value()
        if value.type.strip_typedefs().name in ("qm::Cache", "qm::Arena", "qm::Traceable"):
            return name_of(value)
    except gdb.error:
        pass
    return text


def load_image(arguments):
    """Loads raw memory as a core file: one segment, no registers."""
    words = gdb.string_to_argv(arguments)
    if len(words) != 2:
        raise gdb.GdbError("usage: qm image FILE BASE")
    base = int(gdb.parse_and_eval(words[1]))
    with open(words[0], "rb") as file:
        data = file.read()
    wide = gdb.lookup_type("char").pointer().sizeof == 8
    head, segment = (64, 56) if wide else (52, 32)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1, 1, 0]) + bytes(8)
    layout = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    header = ident + struct.pack(layout, 4, 243, 1, 0, head, 0, 5 if wide else 1, head, segment, 1, 0, 0, 0)
    if wide:
        program = struct.pack("<IIQQQQQQ", 1, 7, head + segment, base, base, len(data), len(data), 1)
    else:
        program = struct.pack("<IIIIIIII", 1, head + segment, base, base, len(data), len(data), 7, 1)
    core = tempfile.NamedTemporaryFile(suffix=".core", delete=False)
    with core:
        core.write(header + program + data)
    try:
        gdb.execute("target core %s" % core.name)
    finally:
        os.unlink(core.name)  # GDB keeps it open


class Quartermaster(gdb.Command):
    """Quartermaster's trace: qm caches [NAME] | traces NAME | stacks [NAME] | whatis ADDRESS|NAME | free | kmemstat [NAME] |
allocinfo [NUMBER] | growth [MARK] | findleaks | image FILE BASE."""

    VERBS = {"caches": print_caches, "traces": print_traces, "stacks": print_stacks, "whatis": print_whatis,
             "free": print_free, "kmemstat": print_kmemstat, "allocinfo": print_allocinfo, "growth": print_growth,
             "findleaks": print_findleaks, "image": load_image}

    def __init__(self):
        super().__init__("qm", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        verb, _, rest = argument.strip().partition(" ")
        if verb not in self.VERBS:
            raise gdb.GdbError(self.__doc__)
        try:
            self.VERBS[verb](rest.strip())
        except (gdb.error, OSError) as error:  # an unknown name, unreadable memory or a missing file
            raise gdb.GdbError(str(error))
        except (ArithmeticError, LookupError, ValueError, struct.error) as error:
            raise gdb.GdbError("memory is damaged, or the image is another: %s" % error)

    def complete(self, text, word):
        verb, space, begun = text.lstrip().partition(" ")
        if not space:
            return [verb for verb in self.VERBS if verb.startswith(word)]
        if verb == "whatis":
            return gdb.COMPLETE_EXPRESSION
        if verb == "image":
            return gdb.COMPLETE_FILENAME
        try:
            if verb == "growth":
                known = [text_of(mark["name"].address) for mark in marks()]
                return [name[len(begun) - len(word) :] for name in known if name.startswith(begun)]
            takes_names = verb in ("caches", "traces", "stacks", "kmemstat")
            known = [name_of(source) for source in caches() + (arenas() if verb != "caches" else [])] if takes_names else []
        except gdb.error:
            return []  # no target, or its memory cannot be read
        # If a name has several words, such as `a-b`, GDB completes the last one.
        return [name[len(begun) - len(word) :] for name in known if name.startswith(begun)]


Quartermaster()


# ---- pretty-printers -------------------------------------------------------------------------------------------------


class CachePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        stats = CacheView(self.value).stats()
        idle = stats["in_magazines"] + stats["in_depot"] + stats["in_slabs"] + stats["reserved"] + stats["quarantined"]
        return "cache %s: %d in use, %d idle, %d bytes each" % (
            name_of(self.value), stats["in_use"], idle, CacheView(self.value).object_size())


class ArenaPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return "arena %s" % name_of(self.value)


class AtomicPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return plain(self.value)


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("quartermaster")
    collection.add_printer("cache", "^qm::Cache$", CachePrinter)
    collection.add_printer("arena", "^qm::Arena$", ArenaPrinter)
    collection.add_printer("atomic", "^std::atomic<.*>$", AtomicPrinter)
    return collection


gdb.printing.register_pretty_printer(None, printers(), replace=True)
