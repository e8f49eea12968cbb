"""Notes that no rule was made for: whole-span recall by class, characters taken too many, speed; real reports left
alone.

    python performance/notes.py [--part held_out] [--names FILE] [--iu FOLDER] [--rounds 20] [--errors N] [--both]

An identifier counts as found when every letter and digit of it lies in spans. Characters too many are letters and
digits in a span and in no identifier, as a fraction of all that are in none. ``--iu`` is a folder with the IU X-Ray
``reports.csv``: every span in one of its reports that is no hole is printed and counted. ``--second`` scores the
second detector, which only has to touch an identifier: it refuses a report and cuts nothing. ``--both`` counts what a
release would hold of notes that are cleaned and then checked by it.
Texts a second are processor time of one core.

``note_types/tuned`` and the parts with numbers may be looked at while rules and tagger are worked on (the tagger learns
from their carriers); ``held_out`` are scored only. No two parts share a carrier, a name, a place or a
list of short forms of institutions. An identifier is marked whole: titles, credentials and the word for a kind of
institution belong to it.
"""

from __future__ import annotations

import argparse
import csv
import gc
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faker import Faker

from updp.reports.lexicon import names as listed_names
from updp.reports.lexicon import places as listed_places
from updp.reports.synthesis import in_training

HERE = Path(__file__).parent / "note_types"
#: Who may have which name or place, by its hash.
PARTS = (
    "tuned",
    "second",
    "fourth",
    "third",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "held_out",
)
#: A field is made up, or is one of the values it gives; what stands before "~" in a value is no part of the identifier.
FIELD = re.compile(r"\{\{(\w+)(?:=([^}]*))?\}\}")
#: Field to class of identifier; "name" and "place" have a bar of their own.
KIND = {
    **dict.fromkeys(
        [
            "full",
            "first",
            "last",
            "reversed",
            "titled",
            "credentialed",
            "first_initial",
            "nicknamed",
            "particled",
            "short",
            "wordy",
            "wordy_titled",
            "wordy_field",
            "letters_apart",
            "broken",
        ],
        "name",
    ),
    **dict.fromkeys(
        [
            "city",
            "state",
            "state_code",
            "country",
            "street",
            "zip",
            "hospital",
            "inst_short",
            "inst_bare_at",
            "inst_bare_from",
            "inst_bare_of",
            "inst_bare_to",
            "school",
            "company",
            "bed",
        ],
        "place",
    ),
    **dict.fromkeys(
        ["date", "partial", "relative_date", "season", "year2", "stamp", "time", "weekday", "birth_year"], "date"
    ),
    **dict.fromkeys(
        [
            "mrn_grouped",
            "accession",
            "serial",
            "plan",
            "ssn",
            "account",
            "licence",
            "plate",
            "username",
            "initials",
            "trial",
        ],
        "number",
    ),
    **dict.fromkeys(["phone", "email", "host", "ipv6", "handle"], "contact"),
    "age90": "age",
}
_SHORT = {
    "fifteenth": "Alfred BARTS|St. Blaise",
    "held_out": "NHCT BWPC ELHT UHP GHC SUHT KGHFT WVT PHU RBCH|St. Endellion's|St Cybi's|Saint Attracta|St. "
    "Levan's|Dayspring Children's|Harris County|Beacon Children's|St. Ludgvan's|Royal Bournemouth|Royal "
    "Gwynfa|Tufts|UMKC|CMCH|DRH|Gartnavel|St Helens|UZ Sint-Lucas|Odense|CHU Amiens|Komfo Anokye|Mt. "
    "Diablo|Randall Children's|St. Conan",
    "fourteenth": "SWFT GWH RNHRD TWBH HDFT MTW UKHD CDDFT RFL HHFT|St. Mewan's|St Cyngar's|Saint Ita|St. Tudy's|Maria "
    "Fareri Children's|Lincoln County|Bristol Myers Children's|St. Samson's|Royal Devon|Royal Glamorgan|"
    "Purdue|LSUHSC|SGPGI|LGH|Inverclyde|St Richard's|UZ Aalst|Skejby|CHU Nîmes|Queen Elizabeth Central|"
    "Mt. Washington|Cardon Children's|St. Nidan",
    "thirteenth": "WAHT RCHT SNUH NVH DCHS UHDB MSFT TSDFT UKSH MCHT|St. Kentigerna's|St Chad's|Saint Ronan|St. "
    "Enoder's|Joe DiMaggio Children's|Cook County|Peyton Children's|St. Elwen's|Royal Oldham|Royal "
    "Lancaster|Drexel|UNMC West|AMRI|JHC|Wishaw|St Luke's|UZ Sint-Jan|Glostrup|CHU Brest|Kamuzu|Mt. "
    "Rainier|Lutheran Children's|St. Blane",
    "twelfth": "NWAFT EKHUFT RWT CRFH PRUH GRI WVH MFT ESHT UVMMC|St. Eanswythe's|St Hild's|Saint Brendan|St. "
    "Rumon's|Alder Hey|Loma Linda Children's|Mattel Children's|St. Nectan's|Royal Gwent|Royal Preston|"
    "Rutgers|UMassD|NIMHANS|RPH|Crosshouse|St Michael's|UZ Middelheim|Hvidovre|CHU Angers|Muhimbili|Mt. "
    "Nittany|Advent Children's|St. Kew",
    "eleventh": "NLAG UHSM SRHT DGOH HMFT NMGH ULTH CRH QVH WSH|St. Aelred's|St Edburga's|Saint Lioba|St. "
    "Decuman's|Sheffield "
    "Children's|Carle Children's|Doernbecher Children's|St. Keyne's|Royal Stoke|Royal "
    "Bolton|Cornell|UTHealth|JIPMER|RNSH|"
    "Monklands|St Woolos|UZ Sint-Rafael|Herlev|CHU Nantes|Mbarara|Mt. Lebanon|Palmetto Children's|St. Machar",
    "tenth": "NBT WUTH SWBH UHNM GHNHS NCTH TUMCH KFMC UCTH RMCH|St. Neot's|St Tydfil's|Saint Apollonia|St. "
    "Winnow's|"
    "Wolfson Children's Wing|Comer Children's|Golisano Children's|St. Drostan's|Mass Heart|Royal Hallamshire|Stanford|"
    "UMiami|CMC Vellore|RWH|Ysbyty Gwynedd|St Catherine's|UZ Oost|Bispebjerg|CHU Rennes|Parirenyatwa|Mt. Baker|"
    "Kosair Children's|St. Fechin",
    "ninth": "UHBW NGH QAH CMFT LTHT BHRUT UMASS RUH SCGH UVMC|St. Govan's|St Bees|Saint Genevieve|St. Piran's|"
    "Monroe Carell Children's|Hasbro Children's|Blythedale Children's|St. Frideswide's|Mass Rehab|Royal Alexandra|Yale|"
    "UNT|JHH|RIE|Hairmyres|St Cross|UZ Roeselare|Radboud|CHU Liège|Mulago|Mt. Desert|Gillies "
    "Children's|St. Illtyd",
    "eighth": "UMHS NMUH DGH QEUH BRI LNWH TWH SFGH UTMB NSUH|St. Bega's|St Kentigern's|Saint Odile|St. Tysilio's|"
    "Nicklaus Children's|Helen DeVos Children's|Le Bonheur Children's|St. Modwen's|Mass Spine|Royal Blackburn|Duke|"
    "UConn|CCF|RHH|Ninewells|St Peter's|UZ Kortrijk|Ullevål|EOC Lugano|Steve Biko|Mt. Graham|Gillette "
    "Children's|St. Cadoc",
    "tuned": "BWH UCLA KUMC NYP VCU OHSU UAB MUSC HUP|St. V's|St Joe's|Saint Agnes|St. Luke's|Boston Children's|"
    "Texas Children's|Rady Children's|St. Rita's|Mass General|Brigham|Hopkins|UNC|RUSH|JGH|SickKids|GOSH|Guy's|"
    "St Thomas'|UZ Leuven|Charité|AKH|KSUMC|Mt. Sinai|Cook Children's|St. Anne's",
    "second": "UMMC UIHC SLU UTSW CHLA JPS URMC LGH BMC UHN|St. Jude's|St Pat's|Saint Bernadette|St. Elmo's|"
    "Cincinnati Children's|Seattle Children's|Dell Children's|St. Clare's|Mass Eye|Royal Free|Emory|UVA|WVU|VGH|"
    "AMNCH|RNOH|Bart's|St George's|AZ Delta|Inselspital|LKH|AIIMS|Mt. Carmel|Nemours Children's|St. Brigid's",
    "third": "UCSD UMC BIDMC KCH RVH OSU MGB|St. Cyril's|St Fin's|Saint Monica|St. Hilda's|Phoenix "
    "Children's|Arnold Palmer Children's|St. Olaf's|Mass Mental|Royal Marsden|Vanderbilt|USC|LSU|RMH|St "
    "James's|UZ Gent|Rigshospitalet|Tan Tock Seng|Mt. Auburn|Akron Children's|St. Denis",
    "fourth": "UCSF UNMC BUMC PGIMER NUH QMC UMCU LUMC SGH RPAH|St. Kevin's|St Barts|Saint Ursula|St. "
    "Columba's|Colorado Children's|Valley Children's|Lurie Children's|St. Mungo's|Mass Memorial|Royal "
    "Brompton|Tulane|UBC|MCW|RAH|Addenbrooke's|St Helier|UZ Brussel|Karolinska|CHUV|Groote Schuur|Mt. "
    "Zion|Driscoll Children's|St. Finbarr's",
    "sixth": "UCDMC LVHN KGH NNUH BSUH UCLH TUH MMC RJAH HMC|St. Aidan's|St Olave's|Saint Walburga|St. Petroc's|Tulsa "
    "Children's|Primary Children's|Shriners Children's|St. Wilfrid's|Mass Ear|Royal Cornhill|Baylor|UIC|CUMC|RBH|"
    "Raigmore|St Clement's|UZ Gasthuisberg|Sahlgrenska|HUS|Kenyatta|Mt. Airy|Holtz Children's|St. Ninian",
    "seventh": "UWMC DHMC LUHS SJH MKUH UHCW RDE PUH NKCH WMH|St. Werburgh's|St Lucy's|Saint Fiacre|St. Oswin's|"
    "Dayton Children's|Norton Children's|Wolfson Children's|St. Aldate's|Mass Lung|Royal Papworth|Dartmouth|UNLV|"
    "MUHC|RNS|Wythenshawe|St Margaret's|UZ Antwerpen|Haukeland|CHUL|Chris Hani Baragwanath|Mt. Hood|Peyton Manning "
    "Children's|St. Canice",
    "fifth": "UPenn UKMC MGUH TGH KFSH UZA CUH HUG BGH WGH|St. Agatha's|St Mike's|Saint Raphael|St. "
    "Cuthbert's|Omaha Children's|Riley Children's|Levine Children's|St. Bede's|Mass Bay|Royal "
    "Surrey|Creighton|UVM|TTUHSC|PAH|Stobhill|St Vincent's|UZ Jette|Rikshospitalet|CHUM|Tygerberg|Mt. "
    "Vernon|Blank Children's|St. Gallen",
}
_BARE = {
    "fifteenth": "Ambergate Birkdale",
    "held_out": "Aldersyde Bramcote Cotswold Dovehouse Elmstead Fairmile Grovelands Hazelbrook",
    "fourteenth": "Ashleigh Bellevue Crossways Delamere Edenhurst Forestside Heronsgate Kelvinbrook",
    "thirteenth": "Abbotsmead Brackenhill Cherrywood Dunelm Fernlea Gatehouse Hollybank Larkspur Mayfield Overstone",
    "twelfth": "Appleby Brookmead Clarendon Driftwood Elderfield Foxley Greyfriars Honeywood",
    "eleventh": "Alderley Birchwood Chestnuts Denehurst Elmgrove Firbank",
    "tenth": "Amberley Bramblewood Cedarholme Drayton Eversfield Fallowfield Gorsewood Hartwell Isledon Jubilee "
    "Lambourne "
    "Marshgate Oldacre Pemberley Quayside Rowanbank Stillwater Tanglewood",
    "ninth": "Beaumont Copperbeech Dunmore Elmfield Fourwinds Glenholme Highfield Ivyhouse Kingsley Langdale "
    "Moorside Newlands Overdale Priory Riverside Springbank Treetops Whitegates",
    "eighth": "Fernhurst Banner Ashbourne Broomfield Coldwater Deerfield Easterly Furzedown Goosegreen Hollins "
    "Inglewood Kestrels Lyndale Maybank Northcote Ottershaw Primrose Redwoods",
    "tuned": "Lakeside Mercy Ridgeview Brookdale Fairmont Parkland Hillcrest Kaiser Sunrise Meadowbrook Northgate "
    "Oakhaven Rosewood Elmhurst Cedarcrest Pinehurst Westover Foxglove Highgate Kingsmead",
    "second": "Bayview Providence Stonebrook Edgewater Thornbury Willowmere Ashcombe Geisinger Glenwood Larkfield "
    "Southmead Ferncliff Wexham Alderbrook Harrowgate Millbrae Ravenscourt Sandhaven Queensway Longmeadow",
    "third": "Clearwater Trinity Ashgrove Beechwood Holloway Saltmarsh Copperfield Summerhill Redcliffe Wildwood "
    "Brackenfield Newbridge",
    "fourth": "Lakeview Sentara Briarwood Cloverdale Hawthorn Eastgate Greenacre Moorfields Silverdale Tidewater "
    "Whitestone Kingfisher Marlborough Northfields Oakdene Penrose Rookwood Sycamore Westbrook Yewtree",
    "sixth": "Millstream Sutter Ashdown Coppice Fairlawn Grangewood Heatherside Ivybridge Knollwood Laurelhurst "
    "Meadowvale Norwood Oakfield Pinegrove Rushmere Southfields Thornhill Woodlands",
    "seventh": "Brookhaven Intermountain Elderslie Fairholme Stoneleigh Larchwood Thistledown Harbourside Mossbank "
    "Quarryhill Sunnyside Birchgrove Castlemere Dovecote Eaglescliffe Foxhollow Greystones Hazelmere",
    "fifth": "Riverbend Ascension Maplewood Heathfield Claremont Woodside Brambles Hollytree Goldcrest Seaview "
    "Windmill Applegarth Downshire Fernbank Grangefield Lindenlea Netherfield Orchardside",
}
_RELATIVE = {
    "fifteenth": "last Advent|next Saturday",
    "held_out": "last Friday|next summer|the Sunday after next|this past Wednesday|early last May|last Whit "
    "Monday|the fortnight before last|late last October|three Mondays ago|next Thursday",
    "fourteenth": "last Saturday|next winter|the Monday after next|this past Thursday|early last June|last Candlemas|"
    "the weekend before last|late last week|two Tuesdays ago|next Monday",
    "thirteenth": "last Thursday|next autumn|the weekend before last|this past Easter|early last August|last Martinmas|"
    "the Wednesday before last|late last December|next Tuesday|last weekend",
    "twelfth": "last Tuesday week|next spring|the weekend after next|this past Monday|early last April|last "
    "Michaelmas|the Friday before last|late next year",
    "eleventh": "last Monday|next month|the weekend before last|this past Sunday|late last winter|last Easter "
    "Sunday|three weeks ago|"
    "the following Friday|early this month|last March",
    "tenth": "last September|next Wednesday evening|the Sunday before last|this past Tuesday|early last "
    "summer|last Epiphany|the "
    "month after next|late next week|two Fridays ago|the previous Saturday",
    "ninth": "last December|next Sunday|the night before last|this past Saturday|late last spring|last Whitsun|the "
    "week before last|early next month|last evening|the previous Monday",
    "eighth": "last November|next Tuesday|the day before yesterday|this past Wednesday|early last autumn|"
    "last Pentecost|the Thursday before last|late next month|last night|the weekend before",
    "tuned": "last week|last month|last Tuesday|week before last|two Mondays ago|last winter|this past Friday",
    "second": "last year|next Thursday|last summer|previous Sunday|last weekend|this past spring|last fall",
    "third": "last autumn|the Friday before|this past winter|next Monday|late last month",
    "fourth": "last month|last Wednesday|the previous weekend|this coming Tuesday|last spring|early last year|"
    "the other Saturday|last Christmas",
    "sixth": "last July|next Friday|the month before|this past August|late last year|last Diwali|the Tuesday before|"
    "early last week",
    "seventh": "last October|next Saturday|the week after next|this past Thursday|early this spring|last Ramadan|the "
    "Monday before last|late last autumn|last Sunday",
    "fifth": "last February|next Wednesday|the past weekend|this past Monday|early next year|last Easter|the "
    "previous Thursday|late last summer",
}
_WORDS = {
    "fifteenth": "Arch Bloomer Brand Clay Dyer Fortune Gamble Handy Ironside Jumper Kind Lawless Meek Organ Purse",
    "held_out": "Angel Bridle Candle Dolphin Earl Feather Goodchild Honey Jewell Kidd Loveday Mutton Oldham Pickles "
    "Raven Sargent",
    "fourteenth": "Apple Beard Books Cable Diamond Fairway Gallant Horn Kite Lightfoot Pepper Quarry Rowe Spring Trim "
    "Workman",
    "thirteenth": "Bowman Bull Chance Coats Fairchild Flint Frost Garlick Hand Leaf Orchard Plank Rook Sugar Thorne "
    "Vale",
    "twelfth": "Abbott Bell Bond Bush Cage Court Dew Fish Gale Hale Jolly Maiden Post Quick Salt Starling Tree Vine",
    "eleventh": "Barrow Blade Bolt Cannon Chapel Constant Field Forge Grove Hook Merchant Nettle Oakes Penny Ridge "
    "Savory Tower Wheeler",
    "tenth": "Bacon Bridges Chambers Crane Driver Fields Gold Hope Kettle Lemon Moody Painter Peacock Power "
    "Saddler Steel Trout Worth",
    "ninth": "Ash Bloom Butcher Close Cope Dancer Fairweather Flood Game Hammer Jewel Little Marks Nightingale "
    "Peach Pond Rain Silver Tanner Winters",
    "eighth": "Arrow Beach Burns Coffey Dodge Ferry Frame Goodness Hatch Judge Keys Light Moon Outlaw Prince Shields "
    "Tipping Waterfall",
    "tuned": "English Long Field Brown Rich Price Frost Winter Short Black Young Church Hall Stone Wise Best Banks "
    "Case Day Love Early",
    "second": "French Small White Green Rice Marsh Summer Sharp Gray Strong Park Hill Woods Swift Noble Waters "
    "Chance Weeks Joy Later",
    "third": "Walker Moss Lake Flowers Bell Cook Wells Major Power Bright Singer Rivers",
    "fourth": "Bush Fields Forest Sweet Mills Carter Barber Wall Cross Shore Cotton Storm Pool Ring Root Savage "
    "Stocks Vale Ward Wolf",
    "sixth": "Abbot Berry Branch Chase Cole Drake Fox Garland Heath Ivory Keen Lamb March Nash Parish Pike Speed Wood",
    "seventh": "Archer Bishop Brooks Carpenter Cherry Cloud Fisher Gates Golden Harper Kitchen Law Lock Nurse Piper "
    "Pope Reed Sparks",
    "fifth": "Hunter Baker Bird Castle Dale Farmer Gardens Glass House Knight Lane Mason Page Rose Shepherd Snow "
    "Temple West",
}
_GIVEN_WORDS = {
    "fifteenth": "Amity Birdie Buck Celeste Dixie Ebony Gunner Jude Maple Rosie Tripp Verity",
    "held_out": "Clementine Dale Gabe Hyacinth Jett Lowell Myrtle Opal Prudence Rich Saffron Tansy",
    "fourteenth": "Archer Cliff Felicity Gill Harry Ivy Jay Mercy Norm Reed Summer Trip",
    "thirteenth": "Ace Bonnie Candy Chase Dawn Ferris Jewel Lee Penny Sky Tad Will",
    "twelfth": "April Bud Cherry Daisy Dolly Earl Fay Guy Heath June Major Rusty",
    "eleventh": "Blaze Carol Constance Dee Ford Grant Hank Iris Joy Lark Mark Piper",
    "tenth": "Ariel Bay Clove Dusty Flint Gene Haven Honey Jet Merry Patience Royal",
    "ninth": "Bliss Cliff Coral Crystal Sage Eve Gay Harmony Herb Laurel Rod Scarlet",
    "eighth": "Aurora Blossom Chuck Destiny Forest Ginger Happy Holly Linden Mercy Rocky Willow",
    "tuned": "Paul Grace April Grant Mark Faith Art Rose Bill Dawn",
    "second": "Ian Joy May Chase Will Hope Rusty Lily Rich June",
    "third": "Frank Olive Guy Heather Norm Penny Drew Iris",
    "fourth": "Amber Bob Daisy Ernest Gene Honor Jack Pearl Ray Summer Violet Wade",
    "sixth": "Charity Chip Dell Flora Hunter Jasmine Josh Peg Reed Rex Sunny Terry",
    "seventh": "Autumn Brook Christian Dean Earnest Gale Hazel Jade Miles Pat Robin Sandy",
    "fifth": "Angel Basil Clay Fern Glen Ivy Lance Melody Ruby Skip Stone Victor",
}
_PARTICLES = {
    "fifteenth": "van der|dos|von|Al-|O'|Mac|de la|bin|ter|St. ",
    "held_out": "van der|de la|zur|Al-|O'|del|Mc|das|binti|van de|Saint |du",
    "fourteenth": "van der|de los|zu|El-|O'|di|Mac|da|bint|van den|St. |le",
    "thirteenth": "van den|de la|von|Al-|O'|della|Mc|dos|ben|van der|Le |du",
    "twelfth": "van der|de los|von|El |O'|del|Mac|das|ibn|van den|La |af",
    "eleventh": "van de|de la|von|al-|O'|di|Mc|dos|bin|van den|Le |el",
    "tenth": "van 't|de la|von|El-|O'|da|Mc|del|bin|das|Ter |Abd ",
    "ninth": "van der|de la|von den|Al-|D'|Mac|dei|bin|da|ter|ap|Ben ",
    "eighth": "van de|de los|von|Al-|O'|della|ibn|dos|ten|y|Mac|San ",
    "tuned": "van der|de la|von|al-|O'|Mc|di|bin|dos|van|le|El ",
    "second": "van den|de los|zu|Al |D'|Mac|della|ibn|da|ten|du|ter",
    "third": "van 't|de las|vom|El-|Mc|dal|ben|do|le|Fitz",
    "fourth": "van de|de l'|von der|Abu |O'|Mac|degli|bint|das|af|St. |Te ",
    "sixth": "van der|del|von|Bin |Mc|degli|ibn|do|zum|op de|Nic |la",
    "seventh": "van den|de las|von und zu|El-|Mc|dello|bar|de'|zum|ab|Ní |da",
    "fifth": "van het|de|von dem|El |Mac|delle|ben|dalla|zur|ap|Ó |di",
}
_TWO = {
    "fifteenth": "Aw Bun Cai Eu Fok Gu Ie Kam Ma Pun Sin Ti",
    "held_out": "Ap Ban Dai Fei Goh Huh Ke Lam Mun Phi Su To",
    "fourteenth": "Bae Do Eng Foo Hwa Jo Ky Lo Min Ro Tu Yi",
    "thirteenth": "An Chu Dang Fong Ha Ji Kwok Lau Mai Pek Ru Wo",
    "twelfth": "Bo Do Fan Gao Hsu Im Ly Nie Oh Su Uy Yun",
    "eleventh": "Au Bi Chi Do Fu Ha Ko Lu Mo Ng Ou Wu",
    "tenth": "Ang Be Chu Dy Fe Gi Hoa Ing Kee Lai Mu Ooi",
    "ninth": "Bai Cho Da Ee Hui Iu La Luu Oo Pa Sa Teh",
    "eighth": "Ah Bá Cao De Fo Ty Im Jin Kha Lim My Ow",
    "tuned": "Ng Li Wu Ho Xu Yu Ma Lo Vo Oh An Ba",
    "second": "Le Ha Do Hu Su Ko Ye Qi Ly Bo Yi Um",
    "third": "Lu Bi Fu Ke Re Mo Ta No",
    "fourth": "He Du Pu Vu To Oz Si Ge Ai Ky Ji Ry",
    "sixth": "Bu Co Di Er Go Hé Ka Mai Oy Pó Sy Za",
    "seventh": "Ae Cu Ding Eo Ga Hy In Ju Lý Ni Pi Qu",
    "fifth": "Bo Fa Gu Ip Jo Ku Lê Mu Na Ou Ro Xi",
}
_COUNTRIES = {
    "fifteenth": "Ghana Poland Sweden Iraq Spain Cuba Mexico Eritrea",
    "held_out": "Afghanistan Bolivia Comoros Ecuador Fiji Iceland Jordan Latvia Maldives Paraguay Rwanda Tanzania",
    "fourteenth": "Algeria Brunei Croatia Estonia Fiji Hungary Italy Japan Malawi Oman Somalia Ukraine",
    "thirteenth": "Barbados Cambodia Chile Egypt Georgia Greece Iran Libya Mozambique Portugal Sweden Vietnam",
    "twelfth": "Azerbaijan Bhutan Canada Cyprus Denmark Finland Guinea Mauritius Nepal Qatar Senegal Zimbabwe",
    "eleventh": "Argentina Belgium Brazil Ghana Honduras Indonesia Kenya Lithuania Malaysia Nigeria Peru Poland",
    "tenth": "Austria Cameroon Congo Gambia Guatemala India Ireland Madagascar Nicaragua Pakistan Sudan Tunisia",
    "ninth": "Bahrain Botswana Chad Peru Slovenia Jamaica Myanmar Norway Panama Rwanda Togo Turkey",
    "eighth": "Albania Benin Burkina Colombia Uruguay Gabon Guinea Kosovo Lesotho Mali Paraguay Yemen",
    **dict.fromkeys(
        ["tuned", "second", "third"],
        "Ghana Portugal Honduras Bangladesh Lebanon Romania Japan Chile Uganda Nepal Serbia Samoa",
    ),
    "fourth": "Morocco Ecuador Finland Vietnam Cyprus Malawi Iceland Taiwan Bolivia Estonia Oman Fiji",
    "sixth": "Armenia Burundi Cuba Djibouti Egypt Guyana Israel Kuwait Libya Malta Niger Syria",
    "seventh": "Algeria Belize Croatia Dominica Ethiopia Georgia Haiti Iraq Laos Moldova Namibia Tonga",
    "fifth": "Angola Bulgaria Cambodia Denmark Eritrea Gambia Hungary Jordan Kenya Latvia Mongolia Zambia",
}
_NICK = {
    "fifteenth": "Bosun Chippy Digger Geordie Jazz Moth Sparks Twiggy",
    "held_out": "Badger Bobbins Dinks Foxy Monty Sugar Tex Wiggy",
    "fourteenth": "Bunny Captain Ducky Frosty Mutt Peanut Rex Tiggy",
    "thirteenth": "Bunty Dot Flash Gaffer Mungo Pip Scout Spud",
    "twelfth": "Bluey Champ Dodger Ginge Lady Moke Pudding Snowy",
    "eleventh": "Bertie Buster Chalky Dixie Jock Paddy Smudge Taff",
    "tenth": "Bingo Corky Duchess Kipper Moggy Pepper Sailor Tosh",
    "ninth": "Bear Curly Dinky Freckles Lofty Nipper Tubby Wally",
    "eighth": "Ozzie Birdie Cheeky Duff Lucky Midge Nobby Shorty",
    "tuned": "Bob Peggy Skip Buddy Chip Dot Tex Mimi",
    "second": "Bill Red Sonny Ginger Ace Kitty Duke Nan",
    "third": "Chuck Dolly Pip Scotty Babs Gus",
    "fourth": "Hank Trixie Mac Bunny Spike Nell Rocky Teddy",
    "sixth": "Bubba Cricket Doc Fuzzy Happy Sparky Tiny Whitey",
    "seventh": "Biff Chick Dusty Flip Goldie Junior Moose Tootsie",
    "fifth": "Bud Cookie Dutch Fitz Jinx Lefty Pops Slim",
}


#: Names of institutions of a part's own: town, surname and given name to choices.
_FORMS: dict[str, dict[str, Callable[[str, str, str], list[str]]]] = {
    "held_out": {
        "hospital": lambda town, last, first: [
            f"{town} Doctors Hospital", f"{last} Endoscopy Suite", f"{town} Cardiac Centre", f"Mount St. {first}",
            f"{last} Lung Clinic", f"{town} Teaching Hospital", f"{first} {last} Pavilion", f"{town} Medical Plaza",
            f"Clinique de {town}",
        ],
        "school": lambda town, last, first: [
            f"{town} Faith School", f"{last} Law School", f"{town} Institute", f"Lycée {last}",
        ],
        "company": lambda town, last, first: [
            f"{last} Optical", f"{last} Bakery", f"{town} Water", f"{last} & Ruiz", f"{last} Freight",
            f"{town} Textiles",
        ],
    },
    "fourteenth": {
        "hospital": lambda town, last, first: [
            f"{town} Emergency Hospital", f"{last} Surgical Centre", f"{town} Northern Hospital",
            f"Church Hospital of {town}", f"{last} Cardiothoracic Unit", f"Queen {first} Infirmary",
            f"{town} and District Clinic", f"{last} Radiology Group", f"{town} Metropolitan",
        ],
        "school": lambda town, last, first: [
            f"{town} Sixth Form College", f"{last} Art School", f"{town} Maritime Academy", f"University of {town}",
        ],
        "company": lambda town, last, first: [
            f"{last} Press", f"{last} Waste Services", f"{town} Assurance", f"{last} & Nephews", f"{town} Shipping",
            f"{last} Hotels",
        ],
    },
    "thirteenth": {
        "hospital": lambda town, last, first: [
            f"{town} Infectious Diseases Hospital", f"{last} Thoracic Centre", f"{town} Lakeside Hospital",
            f"St {first}'s Hospital", f"Hospital of St {first}", f"{last} Respiratory Institute", f"{town} Western",
            f"{town} Medical College", f"{last} Community Clinic", f"Good Hope Hospital {town}",
        ],
        "school": lambda town, last, first: [
            f"{town} Free School", f"{last} House School", f"{town} Lower School", f"College of {town}",
        ],
        "company": lambda town, last, first: [
            f"{last} Minerals", f"{last} Underwriters", f"{town} Airways", f"{last} & Pryce", f"{last} Clinical Trials",
            f"{town} Bricks",
        ],
    },
    "twelfth": {
        "hospital": lambda town, last, first: [
            f"{town} Queen's Hospital", f"{last} Chest Unit", f"{town} Hospital Trust", f"Hospital of the Holy {first}",
            f"{last} Medical Practice", f"{town} Central", f"Saint {first} Hospital", f"{town} Lung Centre",
        ],
        "school": lambda town, last, first: [f"{town} Juniors", f"{last} Girls", f"{town} Institute of Technology"],
        "company": lambda town, last, first: [
            f"{last} Windows", f"{last} & Hart", f"{town} Ferries", f"{last} Tyres", f"{last} Metalworks",
        ],
    },
    "eleventh": {
        "hospital": lambda town, last, first: [
            f"{town} General Infirmary", f"{last} Chest Clinic", f"{town} Community Hospital", f"St. {first} Hospital",
            f"{town} Health Centre", f"{last} Memorial Medical Center", f"Hospital of St. {first}", f"{town} Royal",
        ],
        "school": lambda town, last, first: [f"{town} Primary", f"{last} Academy", f"University of {town}"],
        "company": lambda town, last, first: [
            f"{last} Fisheries", f"{last} & Co", f"{town} Quarry", f"{last} Printers", f"{last} Homes",
        ],
    },
    "tenth": {
        "hospital": lambda town, last, first: [
            f"{town} Chest Hospital", f"{last} Recovery Unit", f"{town} Specialist Hospital", f"{last} Medical Group",
            f"{town} Naval Hospital", f"Lady {first} Hospital", f"{town} Women's Hospital", f"{last} Dental Practice",
            f"{town} University Hospital", f"Hospital San {first}",
        ],
        "school": lambda town, last, first: [
            f"{town} Comprehensive", f"{last} Lyceum", f"{town} Secondary", f"{last} Preparatory School",
        ],
        "company": lambda town, last, first: [
            f"{last} Marine", f"{last} Law", f"{town} Lines", f"{last} Wholesale", f"{last} SA",
        ],
    },
    "ninth": {
        "hospital": lambda town, last, first: [
            f"{town} Trauma Centre", f"{last} Hospice", f"{town} Royal Hospital", f"{last} Birth Centre",
            f"{town} Health Sciences Centre", f"Holy Cross Hospital {town}", f"{last} Pain Clinic",
            f"{town} Sanatorium", f"Prince {first} Hospital", f"{last} Outpatient Pavilion",
        ],
        "school": lambda town, last, first: [
            f"{town} Elementary", f"{last} Polytechnic", f"{town} Community College", f"{last} Montessori School",
        ],
        "company": lambda town, last, first: [
            f"{last} Timber", f"{last} Orthotics", f"{last} Solicitors", f"{town} Coaches", f"{last} GmbH",
        ],
    },
    "eighth": {
        "hospital": lambda town, last, first: [
            f"{town} Children's Hospital", f"{last} Stroke Unit", f"{town} Base Hospital", f"{last} Dialysis Centre",
            f"Our Lady of {town} Hospital", f"{last} Veterans Home", f"{town} Walk-in Centre",
            f"King {first} Hospital", f"{town} Breast Clinic",
        ],
        "school": lambda town, last, first: [
            f"{town} Middle School", f"{last} Sixth Form", f"{town} Nursery", f"{last} University",
        ],
        "company": lambda town, last, first: [
            f"{last} Aviation", f"{last} Funerals", f"{last} Pharma", f"{town} Shipyard", f"{last} & Co",
        ],
    },
    "sixth": {
        "hospital": lambda town, last, first: [
            f"{town} Veterans Hospital", f"{last} Burn Center", f"{town} Polyclinic", f"{last} Rehabilitation Centre",
            f"{town} Maternity Hospital", f"Sisters of {town} Hospital", f"{town} Surgicenter",
            f"Mount {last} Hospital",
        ],
        "school": lambda town, last, first: [f"{town} Prep", f"{last} Secondary School", f"University of {town}"],
        "company": lambda town, last, first: [
            f"{last} Brewing", f"{last} & Partners", f"{town} Buses", f"{last} Dairies",
        ],
    },
    "seventh": {
        "hospital": lambda town, last, first: [
            f"{town} Cottage Hospital", f"{last} Eye Hospital", f"University Hospitals of {town}",
            f"{town} Chest Clinic", f"{last} Health Centre", f"{first} {last} Hospice", f"{town} Urgent Care",
            f"Princess {first} Hospital", f"{town} Imaging",
        ],
        "school": lambda town, last, first: [f"{town} High", f"{last} College", f"{town} Technical Institute"],
        "company": lambda town, last, first: [
            f"{last} Foundry", f"{last} and Sons", f"{last} Medical Ltd", f"{last} Haulage", f"{town} Steel",
        ],
    },
    "fifth": {
        "hospital": lambda town, last, first: [
            f"{town} County Hospital", f"{last} Heart Institute", f"Hospital of {town}", f"{last} Orthopaedic Hospital",
            f"{town} Health Park", f"St. {first}'s Infirmary", f"{last} Day Surgery", f"Queen {first} Hospital",
        ],
        "school": lambda town, last, first: [f"{town} Grammar School", f"{last} Junior School", f"{town} University"],
        "company": lambda town, last, first: [f"{last} Roofing", f"{last} & Daughters", f"{last} Plc", f"{last} Taxis"],
    }
}  # fmt: skip


def _part(value: str, part: str) -> bool:
    """Whether a name or place is one of this part: every second is one of the carriers that are worked on."""
    return PARTS[zlib.adler32(value.encode()) % len(PARTS)] == part


class Values:
    """A value for each field, from one random state, of one part of the lists."""

    def __init__(self, rng: random.Random, part: str, further: list[tuple[str, str]]) -> None:
        self.rng, self.part = rng, part
        self.us = Faker("en_US", use_weighting=False)
        self.us.seed_instance(rng.random())
        code = listed_names()
        mine = sorted(n for n in code if len(n) > 2 and in_training(n) == (part == "tuned") and _part(n, part))
        self.given = [n for n in mine if code[n][0] >= "2"]
        self.surnames = [n for n in mine if code[n][1] >= "2"]
        self.further = [n for n in further if _part(n[1], part)]
        self.cities = sorted(p for p in listed_places() if _part(p, part))

    def name(self) -> tuple[str, str]:
        if self.further and self.rng.random() < 0.3:
            return self.rng.choice(self.further)
        return self.rng.choice(self.given).capitalize(), self.rng.choice(self.surnames).capitalize()

    def city(self) -> str:
        if self.rng.random() < 0.4:
            return self.us.city()
        return re.sub(r"[a-z]+", lambda m: m.group().capitalize(), self.rng.choice(self.cities)).replace("'S", "'s")

    def _of(self, table: dict[str, str]) -> str:
        mine = table[self.part]
        return self.rng.choice(mine.split("|") if "|" in mine else mine.split())

    def _short(self) -> str:
        letters, *words = _SHORT[self.part].split("|")
        return self.rng.choice(words if self.rng.random() < 0.6 else letters.split())

    def _form(self, *forms: str) -> str:
        return self.us.bothify(self.rng.choice(forms)).upper()

    def __call__(self, field: str) -> str:
        rng, us, newer = (
            self.rng,
            self.us,
            self.part not in ("tuned", "second", "third", "thirteenth"),
        )
        first, last = self.name()
        when = us.date_time_between("-70y", "-1d")
        d, m, y = when.day, when.strftime("%B"), when.year
        full = rng.choice([f"{first} {last}"] * 4 + [f"{first} {rng.choice('ABCDEFGHJKLMRST')}. {last}"])
        wordy = f"{self._of(_GIVEN_WORDS)} {self._of(_WORDS)}"
        title = rng.choice(["Dr.", "Dr", "Prof.", "Doctor"])
        forms: dict[str, Callable[[], str]] = {
            "full": lambda: full,
            "first": lambda: first,
            "last": lambda: last,
            "reversed": lambda: rng.choice([f"{last}, {first}", f"{last}, {first}".upper(), f"{last}^{first}".upper()]),
            "mister": lambda: rng.choice(["Mr.", "Mrs.", "Ms.", "Mr", "Mrs", "Miss"]),
            "titled": lambda: rng.choice([f"{title} {last}", f"{title} {first} {last}", f"{title} {first[0]}. {last}"]),
            "credentialed": lambda: (
                f"{first} {last}{rng.choice([', MD', ' MD', ', M.D.', ' RN', ', MD, PhD', ', FRCR', ' DO', ', PA-C'])}"
            ),
            "first_initial": lambda: f"{first} {last[0]}" + rng.choice([".", ""]),
            "nicknamed": lambda: rng.choice(
                [
                    f'{first} "{self._of(_NICK)}" {last}',
                    f"{first} '{self._of(_NICK)}' {last}",
                    f"{first} ({self._of(_NICK)}) {last}",
                ]
            ),
            "particled": lambda: (
                f"{first} {(p := self._of(_PARTICLES))}{'' if p[-1] in chr(39) + '-c ' else ' '}{last}".replace(
                    "  ", " "
                )
            ),
            "short": lambda: rng.choice(
                [f"{first} {self._of(_TWO)}", f"Dr. {self._of(_TWO)}", f"Dr {first} {self._of(_TWO)}"]
            ),
            "wordy": lambda: rng.choice([wordy, wordy, f"{self._of(_WORDS)}, {self._of(_GIVEN_WORDS)}"]),
            "wordy_titled": lambda: f"{title} {self._of(_WORDS)}",
            "wordy_field": lambda: f"Mrs {self._of(_WORDS)}",
            "letters_apart": lambda: " ".join(first.upper()) + "  " + " ".join(last.upper()),
            "broken": lambda: f"{first}\n{last}",
            "city": self.city,
            "state": us.state,
            "state_code": us.state_abbr,
            "country": lambda: self._of(_COUNTRIES),
            "street": lambda: us.street_address().replace("\n", ", "),
            "zip": us.postcode,
            "hospital": lambda: rng.choice(
                [
                    *_FORMS[self.part]["hospital"](self.city(), last, first),
                ]
                if self.part in _FORMS
                else [
                    f"{self.city()} District Hospital",
                    f"{last} Cancer Institute",
                    f"University Hospital {self.city()}",
                    f"{self.city()} Community Health Centre",
                    f"The {last} Infirmary",
                    f"{last} Family Practice",
                    f"{self.city()} Hospital",
                    f"St. {first} Medical Centre",
                ]
                if newer
                else [
                    f"{last} Memorial Hospital",
                    f"{self.city()} General Hospital",
                    f"St. {first}'s Hospital",
                    f"{self.city()} Medical Center",
                    f"{last} Clinic",
                    f"{self.city()} Regional",
                    f"{last} Nursing Home",
                    f"Royal {self.city()} Infirmary",
                ]
            ),
            "inst_short": self._short,
            "inst_bare_at": lambda: self._of(_BARE),
            "inst_bare_from": lambda: self._of(_BARE),
            "inst_bare_of": lambda: (
                f"{self._of(_BARE)} {rng.choice(['Clinic', 'Surgery', 'Health', 'Manor', 'Practice'])}"
            ),
            "inst_bare_to": lambda: self._of(_BARE),
            "school": lambda: rng.choice(
                _FORMS[self.part]["school"](self.city(), last, first)
                if self.part in _FORMS
                else [f"{self.city()} Academy", f"{last} Primary School", f"{self.city()} State University"]
                if newer
                else [f"{last} High School", f"{self.city()} College", f"University of {last}"]
            ),
            "company": lambda: rng.choice(
                _FORMS[self.part]["company"](self.city(), last, first)
                if self.part in _FORMS
                else [f"{last} Brothers", f"{last} Construction", f"{last} Engineering", f"{last} Ltd"]
                if newer
                else [f"{last} Logistics", f"{last} & Sons", f"{last} Inc", f"{last} Motors"]
            ),
            "bed": lambda: rng.choice([f"{rng.randint(2, 40)}", f"{rng.randint(2, 9)}{rng.choice('AB')}"]),
            "date": lambda: rng.choice(
                [
                    when.strftime(f)
                    for f in [
                        "%m/%d/%Y",
                        "%m/%d/%y",
                        "%d/%m/%Y",
                        "%Y-%m-%d",
                        "%d-%b-%Y",
                        "%d %B %Y",
                        "%b %d, %Y",
                        "%d.%m.%Y",
                    ]
                ]
                + [f"{m} {d}, {y}"]
            ),
            "partial": lambda: rng.choice([f"{m} {d}", f"{d} {m}", f"{m[:3]} {y}", f"{when.month}/{y}", f"{m} {y}"]),
            "relative_date": lambda: self._of(_RELATIVE),
            "season": lambda: (
                f"{rng.choice(['spring', 'Spring', 'summer', 'autumn', 'winter', 'early fall'])} "
                f"{rng.choice(['', 'of '])}{y}"
            ),
            "year2": lambda: f"'{y % 100:02d}",
            "stamp": lambda: when.strftime(
                rng.choice(
                    [
                        "%Y-%m-%dT%H:%M:%SZ",
                        "%Y-%m-%d %H:%M:%S",
                        "%Y-%m-%dT%H:%M:%S.123+01:00",
                        "%Y%m%dT%H%M%S",
                        "%Y-%m-%dT%H:%M",
                    ]
                )
            ),
            "time": lambda: rng.choice([when.strftime("%H:%M"), when.strftime("%I:%M %p"), when.strftime("%H:%M:%S")]),
            "weekday": lambda: when.strftime("%A"),
            "birth_year": lambda: str(rng.randint(1918, 1935)),
            "mrn_grouped": lambda: self._form(
                "## ## ##",
                "###-##-##",
                "### ### ###",
                "##.##.##",
                "??-###-###",
                "####/####",
                "##-######-#",
                "# ### ###",
            ),
            "accession": lambda: self._form("?########", "##-#######", "???-####-#####", "S##-#####", "??######"),
            "serial": lambda: self._form("???######", "#######", "??####?", "?####-###"),
            "plan": lambda: self._form("???#########", "#########A", "W########"),
            "ssn": us.ssn,
            "account": lambda: self._form("##########", "#####-##", "########"),
            "licence": lambda: self._form("?######", "#######", "??######"),
            "plate": lambda: self._form("???-####", "### ???", "??? ####"),
            "username": lambda: f"{first[0]}{last}{rng.randint(1, 99)}".lower().replace(" ", "").replace("'", ""),
            "initials": lambda: (first[0] + last[0]).lower(),
            "trial": lambda: self._form("??-####-###", "###-###", "S-#####"),
            "phone": lambda: us.numerify(
                rng.choice(["(###) ###-####", "###-###-####", "###.###.####", "+44 1### ######", "0#### ######"])
            ),
            "email": lambda: f"{first}.{last}@{us.domain_name()}".lower().replace(" ", "").replace("'", ""),
            "host": lambda: (
                rng.choice(
                    [
                        f"pacs{rng.randint(1, 20):02d}.{last.lower()}.local",
                        f"portal.{last.lower()}health.net",
                        f"mychart.{last.lower()}.org",
                        f"ris-{rng.randint(1, 9)}.{last.lower()}.internal",
                    ]
                )
                .replace(" ", "")
                .replace("'", "")
            ),
            "ipv6": lambda: rng.choice(
                [us.ipv6(), "fe80::" + us.hexify("^^^^:^^^^"), "2001:db8::" + us.hexify("^^:^^^^"), us.ipv6()]
            ),
            "handle": lambda: (
                f"@{first}{rng.choice(['_', '', '.'])}{last}{rng.choice(['', '77', '_x'])}".lower()
                .replace(" ", "")
                .replace("'", "")
            ),
            "age90": lambda: str(rng.randint(90, 104)),
        }
        return forms[field]()


def carriers(part: str) -> dict[str, list[str]]:
    """The carriers of a part by type of note."""
    return {
        path.stem: [
            line.replace("\\n", "\n")
            for line in path.read_text("utf-8").splitlines()
            if line and not line.startswith("#")
        ]
        for path in sorted((HERE / part).glob("*.txt"))
    }


def fill(carrier: str, values: Values) -> tuple[str, list[dict[str, Any]]]:
    """A carrier with its fields filled, and its identifiers with class and field."""
    text, spans, end = "", [], 0
    for match in FIELD.finditer(carrier):
        text += carrier[end : match.start()]
        field, given = match.groups()
        lead, _, made = values.rng.choice(given.split("|")).rpartition("~") if given else ("", "", values(field))
        text += lead
        if field in KIND:
            start = len(text)
            if KIND[field] == "name" and (
                title := re.search(r"\b(?:Mrs?|Ms|Miss|[Dd]r|Nurse|Constable|Sgt|Captain|Col|Fr|Imam)\.? $", text)
            ):
                start = title.start()
            spans.append({"start": start, "end": len(text) + len(made), "category": KIND[field], "field": field})
        text += made
        end = match.end()
    return text + carrier[end:], spans


def make(part: str, rounds: int, seed: int, further: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Every carrier of a part, filled ``rounds`` times."""
    values = Values(random.Random(seed), part, further)
    rows = []
    for note, lines in carriers(part).items():
        for _ in range(rounds):
            for line in lines:
                text, spans = fill(line, values)
                rows.append({"note": note, "text": text, "spans": spans})
    return rows


Find = Callable[[str], list[tuple[int, int]]]


class Score:
    """Recall by class and by field, and characters taken too many."""

    def __init__(self, touch: bool = False) -> None:
        self.touch = touch
        self.total: Counter[str] = Counter()
        self.hit: Counter[str] = Counter()
        self.plain = self.taken = 0
        self.errors: list[str] = []

    def add(self, row: dict[str, Any], spans: list[tuple[int, int]]) -> None:
        text = row["text"]
        covered, gold = bytearray(len(text)), bytearray(len(text))
        for start, end in spans:
            covered[start:end] = b"\1" * (end - start)
        for s in row["spans"]:
            start, end = s["start"], s["end"]
            gold[start:end] = b"\1" * (end - start)
            whole = (any if self.touch else all)([covered[i] for i in range(start, end) if text[i].isalnum()])
            for key in (s["category"], f"field {s['field']}"):
                self.total[key] += 1
                self.hit[key] += whole
            if not whole:
                self.errors.append(f"missed {s['field']}: {_show(text, start, end)}")
        for i, c in enumerate(text):
            if c.isalnum() and not gold[i]:
                self.plain += 1
                self.taken += covered[i]
        for start, end in spans:
            if any(text[i].isalnum() and not gold[i] for i in range(start, end)):
                self.errors.append(f"too much: {_show(text, start, end)}")

    def recall(self, key: str) -> float:
        return self.hit[key] / self.total[key] if self.total[key] else float("nan")


def _show(text: str, start: int, end: int) -> str:
    return repr(f"{text[max(0, start - 40) : start]}<<{text[start:end]}>>{text[end : end + 25]}")


def _first() -> Find:
    from updp.reports import Detector

    detector = Detector()
    return lambda text: [(s.start, s.end) for s in detector.spans(text) if s.category != "hole"]


def _second() -> Find:
    from updp.release.residual import residual_spans

    return lambda text: [(s.start, s.end) for s in residual_spans(text, mode="tag")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(set(PARTS)), default="held_out")
    parser.add_argument("--names", type=Path, help="further names, 'given surname' a line, in no list of the product")
    parser.add_argument("--iu", type=Path, help="folder of the IU X-Ray reports.csv")
    parser.add_argument("--rounds", type=int, default=20, help="times each carrier is filled")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--errors", type=int, default=0, help="print this many errors")
    parser.add_argument("--dense", type=float, nargs="*", default=[], help="megabytes of notes as one text to time")
    parser.add_argument(
        "--both", action="store_true", help="what leaves when the second detector checks what is cleaned"
    )
    parser.add_argument("--second", action="store_true", help="score the second detector")
    args = parser.parse_args()
    further = (
        [(a, b) for a, b in (line.split(" ", 1) for line in args.names.read_text().splitlines())] if args.names else []
    )
    rows = make(args.part, args.rounds, args.seed, further)
    find = _second() if args.second else _first()
    gc.freeze()
    start = time.process_time()
    found = [find(row["text"]) for row in rows]
    seconds = time.process_time() - start
    score = Score(args.second)
    for row, spans in zip(rows, found, strict=True):
        score.add(row, spans)
    kinds = sorted(set(KIND.values()))
    whole = sum(score.hit[k] for k in kinds) / sum(score.total[k] for k in kinds)
    print(f"{args.part}: {len(rows)} notes, {sum(score.total[k] for k in kinds)} identifiers")
    print("| class | identifiers | found whole |\n|---|---:|---:|")
    for kind in kinds:
        print(f"| {kind} | {score.total[kind]} | {score.recall(kind):.4f} |")
    print(f"| all | {sum(score.total[k] for k in kinds)} | {whole:.4f} |")
    by_field = {f: score.recall(f"field {f}") for f in KIND if score.total[f"field {f}"]}
    low = sorted((recall, f) for f, recall in by_field.items() if recall < 0.999)
    print("by field: " + ", ".join(f"{f} {recall:.3f}" for recall, f in low))
    print(f"characters too many: {score.taken} of {score.plain} ({100 * score.taken / score.plain:.2f} %)")
    print(f"{len(rows) / seconds:.0f} notes a second ({sum(len(r['text']) for r in rows) / seconds / 1e6:.2f} MB/s)")
    for line in score.errors[: args.errors]:
        print(line)
    for megabytes in args.dense:
        _dense(megabytes, rows, find)
    if args.both:
        _leaving(rows)
    if args.iu:
        _as_they_are(args.iu / "reports.csv", find)


def _dense(megabytes: float, rows: list[dict[str, Any]], find: Find) -> None:
    """All notes as one text, over and over, until it is long enough."""
    text = "\n".join(row["text"] for row in rows)
    text = (text * (1 + int(megabytes * 1e6 / len(text))))[: int(megabytes * 1e6)]
    start = time.process_time()
    spans = len(find(text))
    print(f"{megabytes} MB of notes as one text: {time.process_time() - start:.1f} s, {spans} spans")


def _leaving(rows: list[dict[str, Any]]) -> None:
    """What a release would hold: notes are cleaned, and a note that the second detector objects to stays behind."""
    from updp.core.keys import Key
    from updp.core.record import Report
    from updp.release.residual import residual_spans
    from updp.reports import Cleaner, Detector

    detector = Detector()
    cleaner = Cleaner(detector, Key(b"benchmark key, protects nothing!"), "tag")
    back = needless = left = total = 0
    for row in rows:
        score = Score()
        score.add(row, [(s.start, s.end) for s in detector.spans(row["text"]) if s.category != "hole"])
        missed = sum(error.startswith("missed") for error in score.errors)
        total += len(row["spans"])
        kept = cleaner.clean(Report({"text": row["text"]}), patient_id="p").report.sections["text"]
        if residual_spans(kept, mode="tag"):
            back += 1
            needless += not missed
        else:
            left += missed
    print(f"cleaned and checked: {left} of {total} identifiers leave, whole or in part ({100 * left / total:.2f} %)")
    print(f"notes kept back: {back} of {len(rows)}, {needless} of them with nothing left in them")


def _as_they_are(path: Path, find: Find) -> None:
    texts = []
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            texts.append("\n".join(row[k] for k in ("indication", "findings", "impression") if row[k]))
    start = time.process_time()
    found = [find(text) for text in texts]
    seconds = time.process_time() - start
    spans = [text[a:b] for text, pieces in zip(texts, found, strict=True) for a, b in pieces]
    print(f"IU reports: {len(texts)}, spans {len(spans)}: {spans}; {len(texts) / seconds:.0f} a second")


if __name__ == "__main__":
    main()
