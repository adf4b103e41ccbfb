"""Write the exercises into the sources (once); English fence and Persian pre come from one text."""
import html, re
ROOT="/work/ex/notebooks/source/"
INTRO_EN="""## Check yourself

Two exercises. Each cell runs as it stands and holds a first attempt; `check` says in both languages what is
wrong with it. Change what stands below `# Your turn` until the answer is right. The solutions are folded
up; open them when you have one of your own."""
INTRO_FA="""## خودتان را بیازمایید

دو تمرین. هر سلول همین‌طور که هست اجرا می‌شود و پاسخی اولیه دارد؛ تابع <code dir="ltr">check</code> به هر دو زبان می‌گوید کجایش درست
نیست. آنچه را زیر <code dir="ltr"># Your turn</code> آمده است عوض کنید تا پاسخ درست شود. پاسخ‌ها جمع شده‌اند؛ وقتی خودتان به پاسخی
رسیدید بازشان کنید."""
CLAIMS_EN="""## What this notebook claims

The last code cell checks the claims of this section. What must be exact is always checked; what depends
on real training is checked when the sizes are the full ones."""
CLAIMS_FA="""## ادعاهای این نوت‌بوک

سلول کد آخر ادعاهای این بخش را وارسی می‌کند. آنچه باید دقیق باشد همیشه وارسی می‌شود و آنچه به آموزش واقعی بستگی دارد فقط وقتی که اندازه‌ها
کامل باشند."""
def twin(en,fa): return f'{en.strip()}\n\n+++\n\n<div dir="rtl" lang="fa">\n\n{fa.strip()}\n\n</div>\n'
def cell(code): return f"```{{code-cell}} ipython3\n:tags: [exercise, nbval-check-output]\n\n{code.strip()}\n```\n"
def solution(en,fa,code):
    code=code.strip()
    pre=html.escape(code,quote=False).replace("$","&#36;")
    return twin(f"<details>\n<summary>Solution</summary>\n\n{en.strip()}\n\n```python\n{code}\n```\n\n</details>",
      f'<details>\n<summary>پاسخ</summary>\n\n{fa.strip()}\n\n<pre dir="ltr">\n{pre}\n</pre>\n\n</details>')
def part(exercises, claims=False):
    out=[]
    for n,(en,fa,code,sen,sfa,scode) in enumerate(exercises):
        if n==0: en,fa=INTRO_EN+"\n\n"+en.strip(),INTRO_FA+"\n\n"+fa.strip()
        out+=[twin(en,fa),cell(code)]
        out+=[solution(sen,sfa,scode)]
    if claims: out+=["+++\n",twin(CLAIMS_EN,CLAIMS_FA)]
    # two markdown cells in a row need a separator: solution, next prompt
    text=out[0]
    for before,after in zip(out,out[1:]):
        sep="\n+++\n\n" if not before.startswith("```") and not after.startswith("```") and before!="+++\n" and after!="+++\n" else "\n"
        text+=sep+after
    return text
S={}
S["01_hyperparameter_optimization"]=[(
"""### A space with a condition

Write a search space for an optimizer: `adam` or `sgd` under the name `optimizer`; a `learning_rate`
between `1e-4` and `1e-1` of which every decade gets its part; and a `momentum` for SGD that Adam is never
asked about. The function returns the optimizer.""",
"""### فضایی با شرط

فضای جستجویی برای بهینه‌ساز بنویسید: <code dir="ltr">adam</code> یا <code dir="ltr">sgd</code> با نام <code dir="ltr">optimizer</code>؛ یک
<code dir="ltr">learning_rate</code> میان <code dir="ltr">1e-4</code> و <code dir="ltr">1e-1</code> که هر دهه‌اش سهم خود را بگیرد؛ و یک
<code dir="ltr">momentum</code> برای SGD که هیچ‌گاه برای Adam پرسیده نشود. تابع خود بهینه‌ساز را برمی‌گرداند.""",
'''from chapter18.exercises_tuning import check


# Your turn
def my_space(hp):
    name = hp.Choice("optimizer", ["adam", "sgd"])
    rate = hp.Float("learning_rate", 1e-4, 1e-1)
    momentum = hp.Float("momentum", 0.0, 0.95)
    if name == "sgd":
        return keras.optimizers.SGD(rate, momentum=momentum)
    return keras.optimizers.Adam(rate)


check("space", space=my_space)''',
"""Draw the rate on a logarithmic scale, ask for `momentum` inside a scope that belongs to SGD, and keep the
plain `if`, because the code inside the scope runs for Adam as well.""",
"""نرخ را در مقیاس لگاریتمی بردارید، <code dir="ltr">momentum</code> را درون محدوده‌ای بپرسید که مال SGD است، و آن <code dir="ltr">if</code>
ساده را نگه دارید، چون کد درون محدوده برای Adam هم اجرا می‌شود.""",
'''def my_space(hp):
    name = hp.Choice("optimizer", ["adam", "sgd"])
    rate = hp.Float("learning_rate", 1e-4, 1e-1, sampling="log")
    with hp.conditional_scope("optimizer", ["sgd"]):
        momentum = hp.Float("momentum", 0.0, 0.95)
        if name == "sgd":
            return keras.optimizers.SGD(rate, momentum=momentum)
    return keras.optimizers.Adam(rate)'''),
("""### An objective for a regression

A regression model reports its `loss`, the metrics `r2_score` and `mean_absolute_error`, and the same three
on validation rows. You want the setting with the best R² on rows it was not trained with. Write the
objective for `tuning.make_tuner`.""",
"""### هدفی برای رگرسیون

یک مدل رگرسیون <code dir="ltr">loss</code> و دو معیار <code dir="ltr">r2_score</code> و <code dir="ltr">mean_absolute_error</code> را گزارش می‌کند، و
همین سه را روی ردیف‌های اعتبارسنجی هم. تنظیمی را می‌خواهید که روی ردیف‌های ندیده بهترین R² را داشته باشد. هدف را برای
<code dir="ltr">tuning.make_tuner</code> بنویسید.""",
'''# Your turn
my_objective = "val_r2_score"

check("objective", objective=my_objective)''',
"""R² is one for a perfect model and falls as the model gets worse, so more is better. Keras Tuner would have
taken the name for an error.""",
"""مقدار R² برای مدل بی‌نقص یک است و هر چه مدل بدتر شود پایین‌تر می‌آید؛ پس بیشتر یعنی بهتر. Keras Tuner آن را خطا می‌پنداشت و کمترینش را
می‌خواست.""",
'''my_objective = ("val_r2_score", "max")''')]
S["02_model_ensembling"]=[(
"""### Weights that beat the mean

`forecasts` gives you six members that you have not met, with their predictions on 2,000 rows and the true
classes. Choose one weight for each member, in their order. The checker judges the weights on other rows:
they must beat the uniform mean clearly.""",
"""### وزن‌هایی بهتر از میانگین

تابع <code dir="ltr">forecasts</code> شش عضو به شما می‌دهد که نمی‌شناسید، با پیش‌بینی‌هایشان روی ۲٬۰۰۰ ردیف و کلاس‌های درست. برای هر عضو، به
ترتیب خودشان، یک وزن انتخاب کنید. وزن‌ها روی ردیف‌های دیگری داوری می‌شوند: باید آشکارا از میانگین یکنواخت بهتر باشند.""",
'''from chapter18.exercises_ensembles import check, forecasts

seen = forecasts()
print(", ".join(seen.predictions))

# Your turn
my_weights = [1, 1, 1, 1, 1, 1]

check("weights", weights=my_weights)''',
"""Do not guess: learn the weights from the rows you have. The rushed member gets none.""",
"""حدس نزنید: وزن‌ها را از ردیف‌هایی که دارید یاد بگیرید. به عضو عجول چیزی نمی‌رسد.""",
'''my_weights = fit_weights(seen.predictions, seen.y).weights'''),
("""### Three members for one server

The server has room for three of the same six members, and it averages them uniformly. The cell takes the three
that are best alone. Is there a better trio? Again other rows decide.""",
"""### سه عضو برای یک سرور

سرور فقط برای سه عضو از همان شش عضو جا دارد و از آن‌ها میانگین یکنواخت می‌گیرد. سلول سه عضوی را برمی‌دارد که به‌تنهایی بهترین‌اند. آیا سه‌تایی
بهتری هست؟ باز هم ردیف‌های دیگری داوری می‌کنند.""",
'''# Your turn
my_members = ["net 1", "net 2", "net 3"]

check("trio", members=my_members)''',
"""Try every trio on the rows you have; there are only a few. The best one has one network, for the second and
the third say what the first has said, and two members of other families.""",
"""همهٔ سه‌تایی‌ها را روی ردیف‌هایی که دارید امتحان کنید؛ تعدادشان کم است. بهترینشان یک شبکه دارد، چون دومی و سومی همان را می‌گویند که
اولی گفته است، و دو عضو از خانواده‌های دیگر.""",
'''from itertools import combinations


def mean_loss(trio):
    mean = combine({name: seen.predictions[name] for name in trio})
    return -np.log(mean[np.arange(len(seen.y)), seen.y]).mean()


my_members = min(combinations(seen.predictions, 3), key=mean_loss)''')]
S["03_multi_gpu_training"]=[(
"""### Where does the last batch crash?

You evaluate on 10,000 rows in batches of 240, and you may rent any number of devices from 2 to 16. With
which numbers does all go well until the last batch, and then crash? List them.""",
"""### دستهٔ آخر کجا دردسر می‌شود؟

با ۱۰٬۰۰۰ ردیف و در دسته‌های ۲۴۰تایی ارزیابی می‌کنید و می‌توانید از ۲ تا ۱۶ دستگاه کرایه کنید. با کدام تعداد همه‌چیز تا دستهٔ آخر خوب
پیش می‌رود و آنجا از کار می‌افتد؟ فهرستشان کنید.""",
'''from chapter18.exercises_batching import check

# Your turn
my_devices = [n for n in range(2, 17) if 10_000 % 240 % n]

check("crashing", devices=my_devices)''',
"""A number that does not divide 240 is refused at once, so it never gets as far as the last batch. Of the
others, those crash whose devices cannot share the remainder.""",
"""عددی که ۲۴۰ بر آن بخش‌پذیر نباشد همان اول رد می‌شود و هرگز به دستهٔ آخر نمی‌رسد. از بقیه، آن‌هایی از کار می‌افتند که دستگاه‌هایشان
نمی‌توانند باقی‌مانده را میان خود تقسیم کنند.""",
'''my_devices = [
    n for n in range(2, 17) if 240 % n == 0 and batching.plan_batches(10_000, 240, n).remainder % n
]'''),
("""### From one device to eight

On one device you train with 50,003 rows, batches of 64 and a learning rate of 0.05. Move to 8 devices: each
still takes 64 rows a step, the learning rate follows the linear scaling rule, nothing crashes, and as few
rows as possible are left out.""",
"""### از یک دستگاه به هشت دستگاه

روی یک دستگاه با ۵۰٬۰۰۳ ردیف، دسته‌های ۶۴تایی و نرخ یادگیری ۰٫۰۵ آموزش می‌دهید. به ۸ دستگاه بروید: هر کدام باز در هر گام ۶۴ ردیف بردارد،
نرخ یادگیری از قاعدهٔ مقیاس‌بندی خطی پیروی کند، چیزی از کار نیفتد و کمترین تعداد ردیف کنار گذاشته شود.""",
'''# Your turn
my_batch_size = 64
my_learning_rate = 0.05
my_rows = 50_003

check("eight", batch_size=my_batch_size, learning_rate=my_learning_rate, rows=my_rows)''',
"""The batch size is global, so it grows with the devices, and the learning rate with it. A short last batch may
stay, if it splits.""",
"""این اندازهٔ دسته مال همهٔ دستگاه‌ها با هم است، پس با تعدادشان بزرگ می‌شود و نرخ یادگیری هم با آن. دستهٔ آخر می‌تواند کوتاه بماند، به شرط آنکه تقسیم
شود.""",
'''my_batch_size = 8 * 64
my_learning_rate = 8 * 0.05
my_rows = 50_003 - 50_003 % 8''')]
S["04_device_mesh_and_layouts"]=[(
"""### Rules for a model with attention

The cell prints the paths of a small model. Write strict rules for a mesh of 2 × 4, with the axes `data` and
`model`, that split every kernel along `model`. Biases may stay whole.""",
"""### قاعده‌هایی برای مدلی با توجه

سلول مسیرهای مدل کوچکی را چاپ می‌کند که لایهٔ توجه (attention) دارد. برای مشی $2 \\times 4$ با محورهای <code dir="ltr">data</code> و
<code dir="ltr">model</code> قاعده‌هایی سخت‌گیر بنویسید که همهٔ کرنل‌ها را در راستای <code dir="ltr">model</code> خرد کنند. بایاس‌ها می‌توانند
کامل بمانند.""",
'''from chapter18.exercises_mesh import block, check, giant

for variable in block().variables:
    print(f"{variable.path:34} {variable.shape}")

# Your turn
my_rules = {".*kernel": (None, "model")}

check("layout", rules=my_rules)''',
"""Attention is split by its heads: query, key and value along the second of their three axes, the output
projection along its first. The two dense layers are a pair, by columns and then by rows. It is what the scheme
`megatron` would do.""",
"""توجه را از روی سرهایش (heads) خرد می‌کنیم: query و key و value در راستای محور دوم از سه محورشان، و لایهٔ خروجی در راستای محور
نخستش. دو لایهٔ متراکم یک جفت‌اند: اولی از ستون‌ها و دومی از سطرها. الگوی <code dir="ltr">megatron</code> هم همین کار را می‌کرد.""",
'''my_rules = {
    "attention/(query|key|value)/kernel": (None, "model", None),
    "attention/attention_output/kernel": ("model", None, None),
    "up/kernel": (None, "model"),
    "down/kernel": ("model", None),
}'''),
("""### The fewest devices

`giant` describes a model that must never be built. Find the mesh with the fewest devices, and a layout, such that what
a `T4` keeps between steps fills no more than half of its memory; the rest is for gradients and activations.
You have at most 8 of them, and batches of 256 rows.""",
"""### کمترین تعداد دستگاه

تابع <code dir="ltr">giant</code> مدلی را وصف می‌کند که هرگز نباید ساخته شود. مشی با کمترین تعداد دستگاه و چیدمانی برایش پیدا کنید، طوری که آنچه یک
<code dir="ltr">T4</code> میان گام‌ها نگه می‌دارد بیش از نیمی از حافظه‌اش را پر نکند؛ بقیه برای گرادیان‌ها و فعال‌سازی‌هاست. دست بالا ۸ تا از
آن دارید و دسته‌ها ۲۵۶ ردیف دارند.""",
'''print(planning.plan(giant, mesh={"data": 1}, batch_size=256, estimate=False))

# Your turn
my_mesh = {"data": 8}
my_layout = "replicated"

check("smallest", mesh=my_mesh, layout=my_layout)''',
"""Only what splits the model itself saves memory: with a layout along `model`, all devices belong on that axis.
`fsdp` on as many devices along `data` is right too.""",
"""فقط چیزی حافظه را کم می‌کند که خود مدل را خرد کند: با چیدمانی در راستای <code dir="ltr">model</code> همهٔ دستگاه‌ها باید روی همین محور باشند.
چیدمان <code dir="ltr">fsdp</code> با همین تعداد دستگاه در راستای <code dir="ltr">data</code> هم درست است.""",
'''my_mesh = {"data": 1, "model": 4}
my_layout = "megatron"''')]
S["05_tpu_training"]=[(
"""### A group that is always full

You train on 50,000 images of 784 float32 pixels in batches of 16. Find the largest group `k` for
`steps.fuse` with which no step of an epoch runs singly, and whose images take no more than 2 MB.""",
"""### گروهی که همیشه پُر است

با ۵۰٬۰۰۰ تصویر، هر کدام ۷۸۴ پیکسل از نوع float32، و در دسته‌های ۱۶تایی آموزش می‌دهید. بزرگ‌ترین گروه <code dir="ltr">k</code> را برای
<code dir="ltr">steps.fuse</code> پیدا کنید که با آن هیچ گامی از دوره تنها اجرا نشود و تصویرهایش بیش از ۲ مگابایت نگیرد.""",
'''from chapter18.exercises_steps import check

# Your turn
my_k = 32

check("group", k=my_k)''',
"""The group must divide the number of steps in an epoch, and memory bounds its size. Powers of two are a habit;
here none of them divides that number.""",
"""تعداد گام‌های دوره باید بر اندازهٔ گروه بخش‌پذیر باشد و حافظه هم این اندازه را محدود می‌کند. توان‌های دو از سر عادت‌اند؛ اینجا آن تعداد
بر هیچ‌کدامشان بخش‌پذیر نیست.""",
'''steps_in_epoch = 50_000 // 16
bytes_in_batch = 16 * 784 * 4
my_k = max(
    k
    for k in range(1, steps_in_epoch + 1)
    if steps_in_epoch % k == 0 and k * bytes_in_batch <= 2_000_000
)'''),
("""### Widths without idle columns

Out of habit, a model has hidden layers of 500 and 200 units. For a v5e, choose the narrowest widths that are no
smaller and leave no column of the matrix unit idle.""",
"""### پهناهایی بدون ستون بیکار

مدلی از سر عادت لایه‌های پنهانی با ۵۰۰ و ۲۰۰ واحد دارد. برای v5e باریک‌ترین پهناهایی را انتخاب کنید که کوچک‌تر از این‌ها نباشند و هیچ ستونی از
واحد ماتریسی را بیکار نگذارند.""",
'''# Your turn
my_widths = (500, 200)

check("widths", widths=my_widths)''',
"""Round each width up to the next multiple of 128.""",
"""هر پهنا را رو به بالا به نخستین مضرب ۱۲۸ گرد کنید.""",
'''my_widths = tuple(-(-units // 128) * 128 for units in (500, 200))''')]
if __name__=="__main__":
    import sys
    if len(sys.argv)>1:
        from later import S as L; S=L; ROOT=sys.argv[1].rstrip("/")+"/"; S={k:v for k,v in S.items() if len(sys.argv)<3 or k[:2] in sys.argv[2:]}
    for name,exercises in S.items():
        path=f"{ROOT}{name}.md"; t=open(path).read()
        # drop an earlier insertion
        begin=t.find("## Check yourself\n")
        if name.startswith("01"):
            anchor=t.index("```{code-cell} ipython3\n:tags: [completion]")
            if begin>=0: t=t[:begin]+t[anchor:]; anchor=begin
            t=t[:anchor]+part(exercises,claims=True)+"\n"+t[anchor:]
        else:
            anchor=t.index("## What this notebook claims\n")
            if begin>=0: t=t[:begin]+t[anchor:]; anchor=begin
            t=t[:anchor]+part(exercises)+"\n+++\n\n"+t[anchor:]
        open(path,"w").write(t)
